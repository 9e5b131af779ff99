// The files that `npm start` makes for its servers.
import { open, rm } from 'node:fs/promises'
import type { Account } from './folders.ts'

/**
 * Makes a file that only the account (null: only we) can read, in the place of the one with that name. Whoever owns the
 * folder can put a link there at any moment: it is not followed.
 */
export async function makePrivateFile(path: string, text: string, account: Account | null): Promise<void> {
  await rm(path, { force: true })
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(text)
    if (account) await file.chown(account.uid, account.gid)
  } finally {
    await file.close()
  }
}
