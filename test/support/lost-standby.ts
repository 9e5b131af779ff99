// A server whose commits wait for a synchronous standby that is gone.
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'

type LostStandby = {
  /** Ends all waits of commits for the standby, again and again, until `work` has ended. Returns its result. */
  whileEndingWaits: <T>(work: Promise<T>, end?: 'pg_cancel_backend' | 'pg_terminate_backend') => Promise<T>
  /** From now on, commits wait for no standby. */
  end: () => Promise<void>
  /** Like `end`, and closes the connection. */
  close: () => Promise<void>
}

/** From now on, each commit of the server waits. */
export async function loseStandby({ url }: { url: string }): Promise<LostStandby> {
  const sql = postgres(url, { max: 1, onnotice: () => {}, connection: { synchronous_commit: 'local' } })

  async function setStandby(name: string): Promise<void> {
    await sql.unsafe(`alter system set synchronous_standby_names = '${name}'`)
    await sql`select pg_reload_conf()`
    // Commits wait only once the checkpointer has read the setting.
    for (;;) {
      const [row] = await sql<{ name: string }[]>`
        select current_setting('synchronous_standby_names') as name`
      if (row!.name === name) return
    }
  }

  await setStandby('gone')
  return {
    async whileEndingWaits(work, end = 'pg_cancel_backend') {
      const settled = work.then(
        () => true,
        () => true,
      )
      while ((await Promise.race([settled, sleep(10)])) !== true)
        await sql`select ${sql(end)}(pid) from pg_stat_activity where wait_event = 'SyncRep'`
      return await work
    },
    end: () => setStandby(''),
    async close() {
      await setStandby('')
      await sql.end({ timeout: 1 })
    },
  }
}
