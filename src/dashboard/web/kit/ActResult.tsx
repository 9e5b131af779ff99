// The result of an act, with its audit entry.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { SluiceError, type Answer } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { notify } from './notices.tsx'

/**
 * The response of an act. `finished` false: the act was accepted and is in progress. `audit_seq`: its entry in the
 * audit log.
 */
export type ActResponse<T> = { data: T; finished: boolean; audit_seq: string | null }

/** Waits for the response of an act, e.g. `actResponse(sluice.payments.capture(id, body, { idempotency_key }))`. */
export async function actResponse<T>(answer: Answer<T>): Promise<ActResponse<T>> {
  const { data, response } = await answer.withResponse()
  return { data, finished: response.status !== 202, audit_seq: response.headers.get('x-audit-entry') }
}

/** The response of a creation. `refused`: the provider refused it, and the resource exists with a final status. */
export type CreationResult<T> = { accepted: ActResponse<T> } | { refused: SluiceError; id: string }

/** Waits for the response of a creation. `refusedId` reads the id of the refused resource from an error that has it. */
export async function creationResult<T>(
  answer: Answer<T>,
  refusedId: (error: SluiceError) => unknown,
): Promise<CreationResult<T>> {
  try {
    return { accepted: await actResponse(answer) }
  } catch (error) {
    const id = error instanceof SluiceError ? refusedId(error) : undefined
    if (!(error instanceof SluiceError) || typeof id !== 'string') throw error
    return { refused: error, id }
  }
}

/**
 * Requests an act on one of the dashboard's own routes, which the SDK lacks. These routes take no idempotency key, so
 * the request is not retried.
 */
export async function sendAct<T>(
  method: string,
  path: `/${string}`,
  body?: unknown,
): Promise<ActResponse<T>> {
  return await actResponse<T>(sluice.request(method, path, { body }, { max_retries: 0 }))
}

/**
 * The outcome of an act, then the link to its audit entry. `true_if_accepted`: the text also holds for an act that was
 * accepted but is not finished.
 */
export function ActResultText({
  of: { finished, audit_seq },
  true_if_accepted = false,
  children,
}: {
  of: ActResponse<unknown>
  true_if_accepted?: boolean
  children: ReactNode
}) {
  return (
    <div className="stack">
      <div>
        {finished || true_if_accepted
          ? children
          : 'It was accepted and is in progress. This page shows the outcome.'}
      </div>
      {audit_seq !== null && (
        <div>
          <AuditLink seq={audit_seq} />
        </div>
      )}
    </div>
  )
}

/** Shows the outcome of an act as a notice, for dialogs and pages that close after the act. */
export function notifyActDone(text: string, { audit_seq }: ActResponse<unknown>): void {
  const link = audit_seq !== null && {
    to: '/settings/audit',
    search: { seq: audit_seq },
    title: `Audit entry ${audit_seq}`,
  }
  notify({ tone: 'good', text, ...(link && { link }) })
}

/** Link to an audit entry. `of`: the audit log of the `tenant`, or of the `installation`, which only operators see. */
export function AuditLink({ seq, of = 'tenant' }: { seq: string | null; of?: 'tenant' | 'installation' }) {
  return seq === null ? null : (
    <Link to={of === 'tenant' ? '/settings/audit' : '/ops/audit'} search={{ seq }}>
      Audit entry {seq}
    </Link>
  )
}
