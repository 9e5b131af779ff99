// The secrets of a folder of `npm start`: generated once and stored.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import { ConfigError } from '#core/config.ts'
import { newWebhookSecret } from '#core/standard-webhooks.ts'
import { readOwnFile, replaceOwnFile } from './files.ts'

const secretsSchema = z.looseObject({
  /** Empty until the demo tenant has a key. */
  api_key: z.string(),
  /** Empty until the twin of the demo tenant has a key. */
  test_api_key: z.string().default(''),
  encryption_key: z.string(),
  stripe_webhook_secret: z.string(),
  address_key: z.string(),
  email_webhook_secret: z.string(),
  /** Empty until the demo user exists. */
  dashboard_password: z.string(),
})
export type Secrets = z.output<typeof secretsSchema>

/**
 * Loads the secrets, or generates them if there are none. `database`: the folder of an existing embedded database,
 * whose sealed data needs the stored key. Throws ConfigError if the secrets cannot be read, if another user may have
 * changed them, or if they are missing although the database exists.
 */
export function loadSecrets(data_dir: string, database: string | null): Secrets {
  const path = join(data_dir, 'secrets.json')
  const stored = readOwnFile(path)
  if (stored === undefined && database !== null)
    throw new ConfigError(
      `DATA_DIR: ${path} is missing, and the database of an earlier start in ${database} needs it. Restore the file, or remove the database too: rm -r ${database}`,
    )
  if (stored === undefined) {
    const secrets = {
      api_key: '',
      test_api_key: '',
      encryption_key: newKey(),
      stripe_webhook_secret: `whsec_${randomBytes(24).toString('hex')}`,
      address_key: newKey(),
      email_webhook_secret: newWebhookSecret(),
      dashboard_password: '',
    }
    saveSecrets(data_dir, secrets)
    return secrets
  }
  try {
    return secretsSchema.parse(JSON.parse(stored))
  } catch {
    throw new ConfigError(
      `DATA_DIR: ${path} cannot be read. Restore it, or remove the folder ${data_dir}: data that is sealed with its key is then lost.`,
    )
  }
}

function newKey(): string {
  return randomBytes(32).toString('base64')
}

/** Stores the secrets atomically. Throws ConfigError if another user may change the file. */
export function saveSecrets(data_dir: string, secrets: Secrets): void {
  replaceOwnFile(join(data_dir, 'secrets.json'), `${JSON.stringify(secrets, null, 2)}\n`)
}
