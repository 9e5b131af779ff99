// Reads postmaster.pid, the file in which a running PostgreSQL writes its state.
import { constants } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Reads the status line of postmaster.pid, as pg_ctl does. `standby`: it recovers, and accepts reads if it may. */
export async function isInState(
  data: string,
  pid: number,
  states: ('ready' | 'standby')[],
): Promise<boolean> {
  const lines = await postmasterFile(data)
  const status = lines[7]?.trim()
  return Number(lines[0]) === pid && states.some((state) => state === status)
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** The lines of postmaster.pid; empty if no server runs. The account of the server can replace the file by a link. */
export async function postmasterFile(data: string): Promise<string[]> {
  const flag = O_RDONLY | O_NOFOLLOW | O_NONBLOCK
  const text = await readFile(join(data, 'postmaster.pid'), { encoding: 'utf8', flag }).catch(() => '')
  return text.split('\n')
}
