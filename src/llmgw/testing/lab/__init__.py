"""A laboratory of several hosts on one machine: network namespaces with real etcd, Patroni, keepalived and llmgw."""
