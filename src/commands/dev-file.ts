// Reads `dev.json`, in which the `npm start` of this folder publishes its addresses and keys.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'

/** The content of `dev.json` by this schema; undefined if the file is missing or does not match. */
export function readDevFile<T extends z.ZodType>(data_dir: string, schema: T): z.output<T> | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(join(data_dir, 'dev.json'), 'utf8')))
  } catch {
    return undefined
  }
}
