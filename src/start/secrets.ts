// The secrets of a folder of `npm start`: generated once, kept for the next start.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import { ConfigError } from '#core/config.ts'
import { newWebhookSecret } from '#core/standard-webhooks.ts'
import { readOwnFile, replaceOwnFile } from './files.ts'

const secretsSchema = z.looseObject({
  /** Empty until the demo tenant has one. */
  api_key: z.string(),
  encryption_key: z.string(),
  stripe_webhook_secret: z.string(),
  address_key: z.string(),
  email_webhook_secret: z.string(),
  /** Empty until the demo's user has one. */
  dashboard_password: z.string(),
})
export type Secrets = z.output<typeof secretsSchema>

/**
 * Makes new secrets only where there are none: what is sealed with a lost key is lost too. `database`: the folder of a
 * database that an earlier start has made. Throws ConfigError when the secrets cannot be read or are not ours alone, or
 * are not there although the database is.
 */
export function loadSecrets(data_dir: string, database: string | null): Secrets {
  const path = join(data_dir, 'secrets.json')
  const stored = readOwnFile(path)
  if (stored === undefined && database !== null)
    throw new ConfigError(
      `DATA_DIR: ${path} is missing, and the database of an earlier start in ${database} needs it. Restore it, or remove that folder too, to start afresh: rm -r ${database}`,
    )
  if (stored === undefined) {
    const secrets = {
      api_key: '',
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
      `DATA_DIR: ${path} cannot be read. Restore it, or remove the folder ${data_dir}: what is sealed with its key is lost then.`,
    )
  }
}

function newKey(): string {
  return randomBytes(32).toString('base64')
}

export function saveSecrets(data_dir: string, secrets: Secrets): void {
  replaceOwnFile(join(data_dir, 'secrets.json'), `${JSON.stringify(secrets, null, 2)}\n`)
}
