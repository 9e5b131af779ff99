// DATA_DIR, the folder of `npm start`: created, checked and locked, so that only one start uses the folder at a time.
import { chmod, mkdir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { ConfigError } from '#core/config.ts'
import { readOwnFile, replaceOwnFile } from './files.ts'
import { assertOwnFolder } from './folders.ts'
import { commandOfOwnProcess, processStarted } from './processes.ts'
import { isProgram } from './programs.ts'

const ProcessRecord = z.object({ pid: z.int(), started: z.string() })
/**
 * The start that holds the lock, and its parts. Pids are reused, so each pid is stored with the start time of its
 * process.
 */
const LockRecord = ProcessRecord.extend({ parts: z.record(z.string(), ProcessRecord).default({}) })
const DevFile = z.object({ api_url: z.string() })

/** The time that processes of a killed `npm start` have to end by themselves; after that they are killed. */
const ORPHAN_TIMEOUT_MS = 10_000

export type LockedFolder = {
  /** Records the current process of a part, so that the next start finds the process if this start is killed. */
  record: (part: string, pid: number) => void
  release: () => Promise<void>
}

/**
 * Creates the folder and locks it until `release`. First stops the processes that an earlier, killed `npm start` has
 * left, because they would write to the same files. Throws ConfigError if another `npm start` uses the folder, if the
 * folder is not writable, or if another user owns it or can write to it.
 */
export async function lockFolder(data_dir: string): Promise<LockedFolder> {
  try {
    // Under root the embedded servers run as another user, who needs to enter this folder but not to list it.
    const created = await createFolder(data_dir)
    if (created && process.getuid?.() === 0) await chmod(data_dir, 0o711)
    await assertOwnFolder(data_dir)
    return await lock(data_dir)
  } catch (error) {
    throw unusable(error, data_dir)
  }
}

async function lock(data_dir: string): Promise<LockedFolder> {
  const path = join(data_dir, 'running.json')
  const lock_record = read(path, LockRecord)
  if (lock_record !== undefined && processStarted(lock_record.pid) === lock_record.started) {
    const running = read(join(data_dir, 'dev.json'), DevFile)
    const api_note = running === undefined ? '' : `, its API at ${running.api_url}`
    throw new ConfigError(
      `Sluice is already running in ${data_dir}: process ${lock_record.pid}${api_note}. Stop it (kill ${lock_record.pid}), or choose another folder and ports, e.g. DATA_DIR=.data-2 API_PORT=0 WEBHOOKS_PORT=0 DASHBOARD_PORT=0 EMULATOR_PORT=0 TWILIO_EMULATOR_PORT=0 SMTP_EMULATOR_PORT=0 INBOX_PORT=0 AI_EMULATOR_PORT=0 METRICS_PORT=0`,
    )
  }
  const orphans = Object.values(lock_record?.parts ?? {}).filter(isOrphan)
  if (orphans.length > 0) {
    await Promise.all(orphans.map(stopOrphanPart))
    // Another start may have taken the lock meanwhile.
    return await lock(data_dir)
  }
  const own_record: z.infer<typeof LockRecord> = { ...processRecord(process.pid), parts: {} }
  const write = () => replaceOwnFile(path, JSON.stringify(own_record))
  write()
  return {
    record(part, pid) {
      own_record.parts[part] = processRecord(pid)
      try {
        write()
      } catch {
        // The record is only needed after a crash: the part works without it.
      }
    },
    async release() {
      await rm(path, { force: true })
    },
  }
}

function processRecord(pid: number): z.infer<typeof ProcessRecord> {
  return { pid, started: processStarted(pid) ?? 'ended' }
}

/** Whether the recorded process still runs and is a program of Sluice. No other process is ever killed. */
function isOrphan({ pid, started }: z.infer<typeof ProcessRecord>): boolean {
  return processStarted(pid) === started && isProgram(commandOfOwnProcess(pid) ?? '')
}

async function stopOrphanPart(part: z.infer<typeof ProcessRecord>): Promise<void> {
  const deadline = Date.now() + ORPHAN_TIMEOUT_MS
  while (isOrphan(part)) {
    if (Date.now() > deadline) killIfRunning(part.pid)
    await sleep(20)
  }
}

function killIfRunning(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/**
 * Turns a full disk, missing permissions or a symbolic link into a ConfigError. Other errors are returned unchanged.
 */
export function unusable(error: unknown, data_dir: string): unknown {
  if (!(error instanceof Error)) return error
  const { code = '', message, path = data_dir } = error as NodeJS.ErrnoException
  const other = 'or choose another folder, e.g. DATA_DIR=/var/lib/sluice'
  if (code === 'ENOSPC' || code === 'EDQUOT' || message.includes('No space left on device'))
    return new ConfigError(`DATA_DIR: the disk of ${data_dir} is full. Make room, ${other}`)
  if (code === 'ELOOP') return new ConfigError(`DATA_DIR: ${path} is a symbolic link. Remove it, ${other}`)
  if (code === 'EEXIST' || code === 'ENOTDIR')
    return new ConfigError(`DATA_DIR: ${data_dir} is a file, or lies in one. Remove the file, ${other}`)
  if (['EACCES', 'EPERM', 'EROFS', 'ENOENT'].includes(code))
    return new ConfigError(`DATA_DIR: ${data_dir} is not writable (${code}). Make it writable, ${other}`)
  return error
}

/**
 * Creates a folder and its parents. False if the folder exists already. Does not use Node's `recursive`, which never
 * returns where folders cannot be created, such as in /proc.
 */
async function createFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path, { mode: 0o700 })
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return false
    // If the parent folder exists already, the error has another cause and is thrown.
    if (code !== 'ENOENT' || !(await createFolder(dirname(path)))) throw error
    return await createFolder(path)
  }
}

/**
 * Reads a JSON file by its schema. Undefined if the file is missing or does not match. Throws ConfigError if another
 * user may have written it.
 */
function read<T extends z.ZodType>(path: string, schema: T): z.output<T> | undefined {
  const text = readOwnFile(path)
  try {
    return schema.parse(JSON.parse(text ?? ''))
  } catch {
    return undefined
  }
}
