#!/bin/sh
# Copies the primary into $PGDATA if there is no copy yet, then runs the command: replica.sh postgres …
# The copy has a folder of its own until it is whole, so one that was interrupted is begun again.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    new="$PGDATA.new"
    tries=0
    until
        rm -rf "$new"
        PGPASSWORD="$REPLICATION_PASSWORD" pg_basebackup --host "$PRIMARY" --port "${PRIMARY_PORT:-5432}" \
            --username replicator --pgdata "$new" --slot replica --write-recovery-conf --checkpoint fast
    do
        tries=$((tries + 1))
        [ "$tries" -lt "${TRIES:-60}" ] || { echo "the primary at $PRIMARY gave no copy in $tries tries" >&2; exit 1; }
        sleep 2
    done
    mv "$new" "$PGDATA"
fi
exec "$@"
