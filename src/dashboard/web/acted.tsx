// What became of an act, and the entry of the audit log that says so.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Answer } from '#sdk/index.ts'
import { sluice } from './api.ts'
import { keyOf } from './outcomes.ts'

/** What an act answered, with the number of its audit entry; null: none was named. */
export type Acted<T> = { result: T; audit_entry: string | null }

/** Waits for a call of the SDK, e.g. `acted(sluice.messages.cancel(id, {}, { idempotency_key }))`. */
export async function acted<T>(answer: Answer<T>): Promise<Acted<T>> {
  const { data, response } = await answer.withResponse()
  return { result: data, audit_entry: response.headers.get('x-audit-entry') }
}

/** The same for the dashboard's own routes, which the SDK has no calls for. A POST to these is sent once. */
export async function askActed<T>(
  method: string,
  path: `/${string}`,
  body?: unknown,
  idempotency_key?: string,
): Promise<Acted<T>> {
  const { content, options } = keyOf(path, idempotency_key)
  return await acted<T>(sluice.request(method, path, { body, ...content }, options))
}

/** The outcome of an act in its dialog, with the link to its audit entry. */
export function ActedNote({ children, entry }: { children: ReactNode; entry: string | null }) {
  return (
    <>
      {children}
      {entry !== null && (
        <div>
          <Link to="/settings/audit" search={{ seq: entry }}>
            Audit entry {entry}
          </Link>
        </div>
      )}
    </>
  )
}
