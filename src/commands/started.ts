// What the `npm start` of this folder tells of itself in `dev.json`.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'

/** The part of `dev.json` that the schema names; undefined when nothing was started here, or it says something else. */
export function readDevFile<T extends z.ZodType>(data_dir: string, schema: T): z.output<T> | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(join(data_dir, 'dev.json'), 'utf8')))
  } catch {
    return undefined
  }
}
