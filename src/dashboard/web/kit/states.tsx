// Empty and error states of pages and tables.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { CircleAlert, Inbox, Lock, type LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { errorMessage } from '../api.ts'
import { useSession } from '../session.tsx'
import { CodeBlock } from './CodeBlock.tsx'
import type { Curl } from './curl.ts'
import { Id } from './Id.tsx'

/** The empty state. `curl` creates the first row. */
export function EmptyState({
  title,
  children,
  curl,
  action,
}: {
  title: string
  children?: ReactNode
  curl?: Curl | undefined
  action?: ReactNode
}) {
  return (
    <div className="state">
      <Inbox size={24} strokeWidth={1.5} aria-hidden />
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {action !== undefined && <div className="state-action">{action}</div>}
      {curl !== undefined && <Command of={curl} />}
    </div>
  )
}

function Command({ of }: { of: Curl }) {
  const session = useSession()
  return (
    <>
      <CodeBlock text={of(session)} label="command" />
      <p>
        <code>$SLUICE_API_KEY</code> is one of your API keys: see{' '}
        <Link to="/settings/api-keys">Settings, API keys</Link>.
      </p>
    </>
  )
}

/** The error state: the API's message, the request id and a retry button. Errors 403 and 404 have no retry. */
export function ErrorState({
  error,
  retry,
  action = 'Try again',
}: {
  error: Error
  retry?: (() => unknown) | undefined
  action?: string
}) {
  const { status, request_id } = error instanceof SluiceError ? error : { status: null, request_id: null }
  const { icon: Icon, title } = ERROR_KINDS[status ?? 0] ?? {
    icon: CircleAlert,
    title: 'The data could not be loaded',
  }
  return (
    <div className="state" role="alert">
      <Icon size={24} strokeWidth={1.5} aria-hidden />
      <h2>{title}</h2>
      <p>{errorMessage(error)}</p>
      {request_id !== null && (
        <p>
          Request <Id id={request_id} label="request id" />
        </p>
      )}
      {retry !== undefined && status !== 403 && status !== 404 && (
        <div className="state-action">
          <Button onClick={() => void retry()}>{action}</Button>
        </div>
      )}
    </div>
  )
}

/** Icon and title of an error, by HTTP status. */
const ERROR_KINDS: Record<number, { icon: LucideIcon; title: string }> = {
  403: { icon: Lock, title: 'Your role does not include this' },
  404: { icon: CircleAlert, title: 'Not found' },
}
