// What became of an act, with the entry that it left in the audit.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Answer } from '#sdk/index.ts'

/** `done` false: it is asked for, and not finished yet (202). */
export type ActAnswer<T> = { data: T; done: boolean; audit_entry: string | null }

/** Waits for an act of `sluice` and says which audit entry it left. */
export async function answeredAct<T>(answer: Answer<T>): Promise<ActAnswer<T>> {
  const { data, response } = await answer.withResponse()
  return { data, done: response.status !== 202, audit_entry: response.headers.get('x-audit-entry') }
}

/** The end of a dialog: what became of it, and the way to its audit entry. */
export function ActOutcome({ of, children }: { of: ActAnswer<unknown>; children: ReactNode }) {
  return (
    <div className="stack">
      <div>{children}</div>
      {of.audit_entry !== null && (
        <div>
          <Link to="/settings/audit" search={{ seq: of.audit_entry }}>
            Audit entry {of.audit_entry}
          </Link>
        </div>
      )}
    </div>
  )
}
