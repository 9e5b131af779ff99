// What became of an act, with its audit entry.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Answer } from '#sdk/index.ts'

/** What an act answered. `finished` false: it is still under way. `audit_seq`: its entry in the audit log. */
export type Acted<T> = { data: T; finished: boolean; audit_seq: string | null }

/** Waits for the answer of an act, e.g. `acted(sluice.payments.capture(id, body, { idempotency_key }))`. */
export async function acted<T>(answer: Answer<T>): Promise<Acted<T>> {
  const { data, response } = await answer.withResponse()
  return { data, finished: response.status !== 202, audit_seq: response.headers.get('x-audit-entry') }
}

/** The outcome of an act in words, then the link to its audit entry. */
export function ActedOutcome({ of, children }: { of: Acted<unknown>; children: ReactNode }) {
  return (
    <div className="stack">
      <div>
        {of.finished ? children : 'It was accepted and is under way. This page shows what becomes of it.'}
      </div>
      {of.audit_seq !== null && (
        <div>
          <Link to="/settings/audit" search={{ seq: of.audit_seq }}>
            Audit entry {of.audit_seq}
          </Link>
        </div>
      )}
    </div>
  )
}
