"""Fakes, factories and tiny real models. Shipped: they also serve demos and simulations."""
