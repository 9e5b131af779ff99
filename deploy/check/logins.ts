// The logins of an installation, with their secrets in files as `deploy/postgres/create-users.sh` reads them.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const LOGINS = ['owner', 'api', 'webhooks', 'worker', 'dashboard', 'reports'] as const
export type Login = (typeof LOGINS)[number]

export const CREATE_USERS = fileURLToPath(new URL('../postgres/create-users.sh', import.meta.url))

/** Writes the URL of each login at a server into `folder`, with a new password from `newPassword`. Returns the URLs. */
export async function writeLogins(
  folder: string,
  server_url: string,
  newPassword: () => string,
): Promise<Map<Login, string>> {
  const urls = new Map<Login, string>()
  for (const login of LOGINS) {
    const url = Object.assign(new URL(server_url), { username: `acme_${login}`, password: '' })
    url.password = encodeURIComponent(newPassword())
    // A backslash may be in a URL as it is.
    const written = url.href.replace('%5C', '\\')
    urls.set(login, written)
    await writeFile(join(folder, `database_url_${login}`), `${written}\n`)
  }
  return urls
}
