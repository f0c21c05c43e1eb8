# SPDX-License-Identifier: MIT
"""Replicas that contend for the lease of one Postgres database, and what the database saw of it.

Triggers write down every change of the lease and everything the leaders' passes write, each with a
number drawn while its row is locked, so that the order is the order in which things took effect."""
import time

import psycopg2

from lib.wait import wait_until

WATCH = """
create sequence watch_seq;
create table watch_lease (seq bigint not null default nextval('watch_seq'), holder text,
  fence bigint not null, at timestamptz not null default clock_timestamp(), expires_at timestamptz,
  backend int not null default pg_backend_pid());
create table watch_writes (seq bigint not null default nextval('watch_seq'), step text not null,
  fence bigint not null, at timestamptz not null default clock_timestamp(),
  backend int not null default pg_backend_pid());
create function watch_lease() returns trigger language plpgsql as $$ begin
  insert into watch_lease (holder, fence, expires_at) values (new.holder, new.fence, new.expires_at);
  return null; end $$;
create function watch_writes() returns trigger language plpgsql as $$ begin
  insert into watch_writes (step, fence) values (new.step, new.fence);
  perform pg_sleep(SLOW); return null; end $$;
create trigger watch after insert or update on lease for each row execute function watch_lease();
create trigger watch after insert or update on passes for each row execute function watch_writes();
insert into watch_lease (holder, fence, expires_at) select holder, fence, expires_at from lease;
"""
# A write that took effect under another fence than the lease's of then.
STRAYS = """
select w.seq, w.step, w.fence, l.fence from watch_writes w
cross join lateral (select fence, holder from watch_lease l where l.seq < w.seq
                    order by seq desc limit 1) l
where l.fence <> w.fence or l.holder is null
"""


class Lease:
    """What a database says about the lease of the daemons on it."""

    def __init__(self, database):
        self.database = database
        self._connection = None

    def query(self, sql, *values):
        """As Database.query, but over one connection, since this asks all the time."""
        try:
            self._connection = self._connection or self.database.connect()
            with self._connection.cursor() as cursor:
                cursor.execute(sql, values)
                return cursor.fetchall()
        except psycopg2.OperationalError:
            self._connection = None
            return self.database.query(sql, *values)

    def watch(self, slow_s=0.0):
        """From now on; the tables must be there. Each write takes so much longer."""
        self.database.execute(WATCH.replace("SLOW", str(slow_s)))
        return self

    def is_writing(self):
        """A leader is in the middle of a fenced write."""
        return self.query("select 1 from pg_stat_activity where state = 'active'"
                          " and query like 'INSERT INTO passes%%'")

    def is_between_statements(self):
        """A client has a transaction open and has said nothing for a moment."""
        return self.query("select 1 from pg_stat_activity where state = 'idle in transaction'")

    def leader(self):
        """(name of the replica, fence), or None while nobody holds the lease."""
        rows = self.query(
            "select r.id, l.fence from lease l join replicas r on r.holder = l.holder"
            " where l.expires_at > clock_timestamp()")
        return rows[0] if rows else None

    def fence(self):
        rows = self.query("select fence from lease")
        return rows[0][0] if rows else 0

    def wait_leader(self, above=0, seconds=30.0):
        """Until there is a leader with a fence above that one."""
        return wait_until(lambda: (now := self.leader()) and now[1] > above and now, seconds,
                          lambda: f"a leader above {above}, is {self.leader()}", every=0.01)

    def wait_writes(self, fence, count=1, seconds=30.0):
        """Until so much was written under a fence."""
        wait_until(lambda: self.writes(fence) >= count, seconds,
                   lambda: f"{count} writes under fence {fence}, are {self.writes(fence)}")

    def writes(self, fence):
        return self.query("select count(*) from watch_writes where fence = %s", fence)[0][0]

    def renewed(self):
        """A renewal has just come."""
        before = self.query("select renewed_at from lease")
        wait_until(lambda: self.query("select renewed_at from lease") != before,
                   what="a renewal", every=0.005)

    def check(self):
        """Never two writers past a fence, no fence given twice or falling. Returns how many writes
        and leaderships there were."""
        strays = self.query(STRAYS)
        assert not strays, f"written under a fence that was over: {strays[:5]}"
        falls = self.query(
            "select seq, fence, before from (select seq, fence, lag(fence) over (order by seq)"
            " as before from watch_lease) l where fence < before")
        assert not falls, f"the fence fell: {falls[:5]}"
        shared = self.query(
            "select fence, count(distinct holder) from watch_lease where holder is not null"
            " group by fence having count(distinct holder) > 1")
        assert not shared, f"one fence for two holders: {shared[:5]}"
        return self.query("select (select count(*) from watch_writes),"
                                   " (select count(distinct fence) from watch_lease)")[0]


class Replicas:
    """Daemons on one database, by name; the first named leads at first."""

    def __init__(self, site, database, pass_s, names, slow_s=0.0, **options):
        self.pass_s = pass_s
        self.lease = Lease(database)
        urls = options.pop("urls", {})
        envs = options.pop("envs", {})
        self.daemons = {}
        for name in names:
            self.daemons[name] = site.daemon(
                name=name, store=urls.get(name, database.url), threads=8,
                pass_interval=f"{round(pass_s * 1000)}ms",
                env={"MCPD_NAME": name, **envs.get(name, {})}, **options)
            self.lease.wait_leader()
        self.lease.watch(slow_s)

    def __getitem__(self, name):
        return self.daemons[name]

    def leader(self):
        """(daemon, fence)"""
        name, fence = self.lease.wait_leader()
        return self.daemons[name], fence

    def others(self, daemon):
        return [one for one in self.daemons.values() if one is not daemon]

    def taken_over(self, fence, since, passes=3.0):
        """Waits until another fence is held, which must be within so many passes since then (of
        time.monotonic); returns the new (daemon, fence) and how many passes it took."""
        name, new_fence = self.lease.wait_leader(above=fence, seconds=passes * self.pass_s + 20)
        took = (time.monotonic() - since) / self.pass_s
        assert took <= passes, f"took {took:.2f} passes, not {passes}"
        self.lease.wait_writes(new_fence)
        return self.daemons[name], new_fence, took


def leads(daemon):
    return daemon.metric("mcpd_lease_held") == 1
