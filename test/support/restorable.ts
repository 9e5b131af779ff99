// A PostgreSQL server that goes back in time: by a restore to a time, by a copy of its volume, or by the promotion of a
// standby.
import { execFile } from 'node:child_process'
import { appendFile, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import postgres from 'postgres'
import { createPrivateFile } from '#start/files.ts'
import { createPrivateFolder, createServerFolder, type ServerFolder } from '#start/folders.ts'
import { startPostgres, type EmbeddedPostgres } from '#start/postgres.ts'
import { isAlive } from './file-lock.ts'
import { until } from './process.ts'

export type RestorablePostgres = {
  /** The primary server. Another one after the promotion of a standby. */
  readonly postgres: EmbeddedPostgres
  /** Takes a base backup, and returns its folder. Later times can be restored. */
  backUp: () => Promise<string>
  /** Resolves when everything that was committed is in the archive. Returns the folder of the archive. */
  archive: () => Promise<string>
  /**
   * Restores the base backup and the archived WAL to this time, by the clock of the database, at the same address. The
   * server gets a new timeline.
   */
  restoreTo: (time: string) => Promise<void>
  /**
   * Copies all files at one moment, while the server runs. The returned function stops the server, puts the copy in
   * place of its files and starts it: it recovers as after a crash, on the same timeline.
   */
  copyVolume: () => Promise<() => Promise<void>>
  /** Starts a standby that has received everything. With `synchronous`, each commit waits for the standby. */
  startStandby: (options?: { synchronous?: boolean }) => Promise<Standby>
  /** Stops all servers. Their folders remain. */
  stop: () => Promise<void>
}

type Standby = {
  url: string
  /** Ends the receiver: what the primary commits from now on is not at the standby. */
  disconnect: () => Promise<void>
  /** Makes the standby the primary server. The previous one keeps running. */
  promote: () => Promise<void>
}

type Server = { home: ServerFolder; postgres: EmbeddedPostgres }

const STANDBY = 'standby'
/** Files of a running server, and its WAL, that a base backup leaves out. */
const NOT_BACKED_UP = ['pg_wal', 'pg_replslot', 'postmaster.pid', 'postmaster.opts']

/**
 * Starts a server that archives its WAL. `data_dir`: its folder, created if missing; the folders of backups, copies and
 * standbys have this name with a suffix.
 */
export async function startRestorablePostgres(
  data_dir: string,
  settings: Record<string, string> = {},
): Promise<RestorablePostgres> {
  const all_settings = {
    ...settings,
    archive_mode: 'on',
    archive_command: 'cp %p ../archive/%f.part && mv ../archive/%f.part ../archive/%f',
    // A standby starts from a base backup of this age.
    wal_keep_size: '512MB',
  }
  const servers: Server[] = []
  const start = async (folder: string, home: ServerFolder): Promise<Server> => {
    const server = { home, postgres: await startPostgres({ data_dir: folder, settings: all_settings }) }
    servers.push(server)
    return server
  }
  const own_home = await createServerFolder(data_dir)
  await createPrivateFolder(join(own_home.folder, 'archive'), own_home.account)
  let primary = await start(data_dir, own_home)
  await allowReplication(primary)
  let backup: string | null = null
  let copies = 0

  return {
    get postgres() {
      return primary.postgres
    },
    async backUp() {
      backup = join(primary.home.folder, 'backup')
      await rm(backup, { recursive: true, force: true })
      await backUpTo(backup, primary)
      return backup
    },
    async archive() {
      await archiveWal(primary)
      return join(primary.home.folder, 'archive')
    },
    async restoreTo(time) {
      if (backup === null) throw new Error('No base backup was taken')
      // Recovery fails if the archive has no commit after its target.
      await withSession(primary, async (sql) => void (await sql`select pg_current_xact_id()`))
      // A fast shutdown archives the last segment.
      await primary.postgres.stop()
      await replaceData(primary.home, backup)
      await configure(primary.home, 'recovery.signal', {
        restore_command: 'cp ../archive/%f %p',
        recovery_target_time: time,
        recovery_target_action: 'promote',
      })
      await primary.postgres.restart('fast')
    },
    async copyVolume() {
      const { home, postgres } = primary
      const copy = join(home.folder, `volume-${++copies}`)
      await whileFrozen(primary, () => copyFiles(home.data, copy))
      await rm(join(copy, 'postmaster.pid'))
      return async () => {
        await postgres.crash()
        await replaceData(home, copy)
        await postgres.restart('immediate')
      }
    },
    async startStandby({ synchronous = false } = {}) {
      const folder = `${data_dir}-${++copies}`
      const home = await createServerFolder(folder)
      await createPrivateFolder(join(home.folder, 'archive'), home.account)
      await backUpTo(home.data, primary)
      const password = await readFile(join(primary.home.folder, 'password'), 'utf8')
      await writeFile(join(home.folder, 'password'), password, { mode: 0o600 })
      const { hostname, port, username } = new URL(primary.postgres.url)
      await configure(home, 'standby.signal', {
        primary_conninfo:
          `host=${hostname} port=${port} user=${username} password=${password.trim()} ` +
          `application_name=${STANDBY}`,
      })
      const standby = await start(folder, home)
      await waitForStandby(primary, synchronous)
      return {
        url: standby.postgres.url,
        disconnect: () => changeSetting(standby, 'primary_conninfo', ''),
        async promote() {
          await withSession(standby, async (sql) => void (await sql`select pg_promote()`))
          await untilWritable(standby)
          primary = standby
          backup = null
        },
      }
    },
    stop: async () => void (await Promise.all(servers.map((each) => each.postgres.stop()))),
  }
}

/**
 * Adds `by_ms` to the times of jobs and processes in the database of this URL. A negative number makes a restored
 * database that much older; a positive one sets the clock of its server that much behind. No process may be connected
 * yet.
 */
export async function shiftWork(url: string, by_ms: number): Promise<void> {
  await withSession({ postgres: { url } }, async (sql) => {
    const by = sql`${by_ms} * interval '1 millisecond'`
    await sql`
      update jobs set created_at = created_at + ${by}, run_at = run_at + ${by} where finished_at is null`
    await sql`update jobs set finished_at = finished_at + ${by} where finished_at is not null`
    await sql`update job_history set finished_at = finished_at + ${by}`
    await sql`update processes set seen_at = seen_at + ${by}, ended_at = ended_at + ${by}`
    await sql`update database_heartbeat set at = at + ${by}`
  })
}

/** Resolves when what was committed is in the archive. */
async function archiveWal(server: Server): Promise<void> {
  await withSession(server, async (sql) => {
    // Without a record, an empty file would not be archived.
    await sql`select pg_create_restore_point('archived')`
    const [row] = await sql<{ wal: string }[]>`select pg_walfile_name(pg_switch_wal()) as wal`
    await until('the WAL is archived', async () => {
      const archived = await sql`select from pg_stat_archiver where last_archived_wal >= ${row!.wal}`
      return archived.length > 0
    })
  })
}

/** Copies the files of a running server, except its WAL, to a new folder. */
async function backUpTo(target: string, { home, postgres }: Server): Promise<void> {
  await createPrivateFolder(target, home.account)
  const [label] = await withSession({ postgres }, async (sql) => {
    await sql`select pg_backup_start('base', fast => true)`
    await copyFiles(home.data, target, NOT_BACKED_UP)
    return await sql<{ labelfile: string }[]>`select labelfile from pg_backup_stop(wait_for_archive => false)`
  })
  for (const name of ['pg_wal', 'pg_replslot']) await createPrivateFolder(join(target, name), home.account)
  await createPrivateFile(join(target, 'backup_label'), label!.labelfile, home.account)
}

/** Copies a folder with owners and modes. Files that vanish meanwhile are left out. */
async function copyFiles(from: string, to: string, except: string[] = []): Promise<void> {
  const names = (await readdir(from)).filter((name) => !except.includes(name))
  await promisify(execFile)('mkdir', ['-p', to])
  await promisify(execFile)('cp', ['-a', ...names, to], { cwd: from }).catch((error: { stderr: string }) => {
    const lines = error.stderr.trim().split('\n')
    if (!lines.every((line) => line.endsWith('No such file or directory'))) throw error
  })
}

async function replaceData({ data, account }: ServerFolder, by: string): Promise<void> {
  await rm(data, { recursive: true, force: true })
  await createPrivateFolder(data, account)
  await copyFiles(by, data)
}

/** Writes the settings of a recovery, and the file that asks for the recovery. */
async function configure(
  { data, account }: ServerFolder,
  signal_file: string,
  settings: Record<string, string>,
): Promise<void> {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`)
  await writeFile(join(data, 'postgresql.auto.conf'), lines.join(''))
  await createPrivateFile(join(data, signal_file), '', account)
}

async function allowReplication(server: Server): Promise<void> {
  await appendFile(join(server.home.data, 'pg_hba.conf'), 'host replication all all scram-sha-256\n')
  await withSession(server, async (sql) => void (await sql`select pg_reload_conf()`))
}

async function changeSetting(server: Server, name: string, value: string): Promise<void> {
  await withSession(server, async (sql) => {
    await sql.unsafe(`alter system set ${name} = '${value}'`)
    await sql`select pg_reload_conf()`
    if (name !== 'primary_conninfo') return
    await until('the receiver has ended', async () => {
      const receivers = await sql`select 1 from pg_stat_wal_receiver`
      return receivers.length === 0
    })
  })
}

/** Waits until the standby has received everything; with `synchronous`, until commits wait for it. */
async function waitForStandby(primary: Server, synchronous: boolean): Promise<void> {
  if (synchronous) await changeSetting(primary, 'synchronous_standby_names', STANDBY)
  const state = synchronous ? 'sync' : 'async'
  await withSession(primary, async (sql) => {
    await until(`the standby is ${state}`, async () => {
      const found = await sql`
        select 1 from pg_stat_replication
        where application_name = ${STANDBY} and state = 'streaming' and sync_state = ${state}`
      return found.length > 0
    })
  })
}

async function untilWritable(server: Server): Promise<void> {
  await withSession(server, async (sql) => {
    await until('the recovery has ended', async () => {
      const [row] = await sql<{ recovers: boolean }[]>`select pg_is_in_recovery() as recovers`
      return !row!.recovers
    })
  })
}

/** Stops all processes of the server while `work` runs, so that its files are those of one moment. */
async function whileFrozen({ postgres }: Server, work: () => Promise<void>): Promise<void> {
  const signal = (pids: number[], name: NodeJS.Signals) =>
    pids.filter(isAlive).forEach((pid) => process.kill(pid, name))
  await withSession({ postgres }, async (sql) => {
    // Connects: a server whose first process has stopped accepts no session.
    await sql`select 1`
    signal([postgres.pid], 'SIGSTOP')
    let pids = [postgres.pid]
    try {
      const rows = await sql<{ pid: number }[]>`select pid from pg_stat_activity`
      pids = [...rows.map(({ pid }) => pid), postgres.pid]
      signal(pids, 'SIGSTOP')
      await work()
    } finally {
      signal(pids, 'SIGCONT')
    }
  })
}

async function withSession<T>(
  { postgres: { url } }: { postgres: { url: string } },
  work: (sql: postgres.Sql) => Promise<T>,
): Promise<T> {
  const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    return await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}
