#!/bin/sh
# Runs once, when the primary's folder is new: the gateways' role and database, and what the replica needs.
# The role is an ordinary one, because row-level security does not hold for a superuser.
set -eu
psql -v ON_ERROR_STOP=1 -v fusion="$FUSION_PASSWORD" -v replicator="$REPLICATION_PASSWORD" \
    --quiet --username "$POSTGRES_USER" --dbname postgres <<'SQL'
create role fusion login password :'fusion';
create role replicator login replication password :'replicator';
create database memories owner fusion;
select from pg_create_physical_replication_slot('replica');
\connect memories
create extension if not exists vector;
SQL
echo "host replication replicator samenet scram-sha-256" >>"$PGDATA/pg_hba.conf"
