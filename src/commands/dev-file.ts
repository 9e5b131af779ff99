// Reads the files of the `npm start` of this folder: `dev.json`, in which it publishes its addresses and keys, and its
// secrets.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'

/** The content of a file by this schema; undefined if the file is missing or does not match. */
export function readDevFile<T extends z.ZodType>(
  data_dir: string,
  schema: T,
  name: 'dev.json' | 'secrets.json' = 'dev.json',
): z.output<T> | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(join(data_dir, name), 'utf8')))
  } catch {
    return undefined
  }
}
