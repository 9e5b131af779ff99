// The parts of an `npm start` as processes.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

export type PartProcess = { pid: number; started: string }

/** The processes of the parts that the start in this folder runs, by the parts' names. */
export async function partsOf(data_dir: string): Promise<Record<string, PartProcess>> {
  const text = await readFile(join(data_dir, 'running.json'), 'utf8')
  return (JSON.parse(text) as { parts: Record<string, PartProcess> }).parts
}
