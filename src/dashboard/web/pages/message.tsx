// One message: its content, recipients, status and timeline.
import { Button } from '@mantine/core'
import { CircleAlert } from 'lucide-react'
import type { Message } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { sluice } from '../api.ts'
import { useDialogs } from '../dialogs.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { Skeleton } from '../kit/Skeleton.tsx'
import { CodeBlock } from '../kit/CodeBlock.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Deadline } from '../kit/Deadline.tsx'
import { formatInstant, Instant } from '../kit/Instant.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { Status } from '../kit/Status.tsx'
import { MessageContent } from '../messages/MessageContent.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { TimelineSection } from '../timeline/TimelineSection.tsx'

const FINAL_STATUSES = ['delivered', 'undelivered', 'failed', 'canceled', 'suppressed', 'received']

export function MessagePage() {
  const id = usePathParam('id')
  const path = `/v1/messages/${id}` as const
  const query = useAnswer<Message>(path, undefined, { interval_ms: 5_000 })
  const message = query.data
  const may_cancel = useMay('cancelMessage')
  const { begin, props } = useDialogs<'cancel'>()
  const to = message === undefined ? [] : [message.to].flat()
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: '/messages', title: 'Messages' }}
      label="Message"
      title={({ subject, channel }) => subject ?? (channel === 'sms' ? 'SMS' : 'Email')}
      status={({ status }) => ({ status })}
      description={({ status, from }) =>
        status === 'received' ? `From ${from} to ${to.join(', ')}` : `To ${to.join(', ')}`
      }
      actions={({ status }) =>
        may_cancel &&
        (status === 'scheduled' || status === 'queued') && (
          <Button onClick={() => begin('cancel')}>Cancel message</Button>
        )
      }
      main={
        <>
          {message && <MessageNote message={message} />}
          <section className="section">
            <h2>Content</h2>
            {message === undefined ? <Skeleton width="80%" /> : <MessageContent message={message} />}
          </section>
          {message?.recipients && message.recipients.length > 0 && (
            <section className="section">
              <h2>Recipients</h2>
              <Recipients recipients={message.recipients} />
            </section>
          )}
          <TimelineSection
            path={`${path}/timeline`}
            interval_ms={message !== undefined && FINAL_STATUSES.includes(message.status) ? 30_000 : 5_000}
          />
        </>
      }
      side={
        <>
          <MessageFacts message={message} id={id} />
          {message?.headers && Object.keys(message.headers).length > 0 && (
            <section className="section">
              <h2 className="side-title">Headers</h2>
              <CodeBlock
                label="headers"
                text={Object.entries(message.headers)
                  .map(([name, value]) => `${name}: ${value}`)
                  .join('\n')}
              />
            </section>
          )}
        </>
      }
    >
      <CancelDialog {...props('cancel')} id={id} to={to} />
    </RowPage>
  )
}

function CancelDialog({
  id,
  to,
  ...dialog
}: {
  opened: boolean
  onClose: () => void
  id: string
  to: string[]
}) {
  return (
    <ConfirmDialog
      {...dialog}
      title="Cancel this message?"
      action="Cancel message"
      tone="bad"
      effect={`Nothing is sent to ${to.length === 1 ? to[0] : `the ${to.length} recipients`}. This cannot be undone.`}
      act={(idempotency_key) => actResponse(sluice.messages.cancel(id, {}, { idempotency_key }))}
      onDone={() => invalidate('/v1/messages')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The message is <Status status={result.data.status} />
        </ActResultText>
      )}
    />
  )
}

/** The failure of a message, or why it is not sent yet. Renders nothing if there is neither. */
function MessageNote({ message: { status, failure, send_at, redacted_at } }: { message: Message }) {
  const text =
    failure !== null
      ? `${failure.message}${failure.provider_code === null ? '' : ` Provider code: ${failure.provider_code}.`}`
      : status === 'unknown'
        ? "It is unknown whether the message was sent: the provider's response was lost. The message is looked up and not sent again."
        : status === 'scheduled' && send_at !== null
          ? `The message will be sent at ${formatInstant(send_at)}. Until then you can cancel it.`
          : status === 'suppressed'
            ? 'All recipients are suppressed, so nothing was sent.'
            : null
  if (text === null && redacted_at === null) return null
  return (
    <div className="note" data-tone={failure === null ? undefined : 'bad'} role="note">
      <CircleAlert size={16} aria-hidden />
      <div>
        {text} {redacted_at !== null && 'The content was erased.'}
      </div>
    </div>
  )
}

function Recipients({ recipients }: { recipients: NonNullable<Message['recipients']> }) {
  return (
    <div className="table-frame">
      <table className="table" aria-label="Recipients">
        <thead>
          <tr>
            <th scope="col">Address</th>
            <th scope="col">Status</th>
            <th scope="col">Server response</th>
          </tr>
        </thead>
        <tbody>
          {recipients.map(({ address, status, code, message }) => (
            <tr key={address}>
              <td>{address}</td>
              <td>
                {status === null ? <span className="dim">Not sent yet</span> : <Status status={status} />}
              </td>
              <td className="dim">{[code, message].filter(Boolean).join(' ') || '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function MessageFacts({ message, id }: { message: Message | undefined; id: string }) {
  const listed = (values: string[] | null) => values && values.length > 0 && values.join(', ')
  return (
    <Facts
      of={message}
      facts={{
        Id: <Id id={id} />,
        Channel: ({ channel }) => (channel === 'sms' ? 'SMS' : 'Email'),
        From: ({ from }) => from,
        Cc: ({ cc }) => listed(cc),
        Bcc: ({ bcc }) => listed(bcc),
        'Reply to': ({ reply_to }) => reply_to,
        Tags: ({ tags }) => listed(tags),
        Provider: ({ provider }) => provider,
        Reference: ({ provider_reference }) =>
          provider_reference && <Id id={provider_reference} label="reference" />,
        Segments: ({ segments, encoding }) => segments !== null && `${segments}, ${encoding ?? ''}`,
        Price: ({ price }) => price && `${price.amount} ${price.currency.toUpperCase()}`,
        'Send at': ({ send_at }) => send_at && <Deadline at={send_at} />,
        Sent: ({ sent_at }) => sent_at && <Instant at={sent_at} />,
        Delivered: ({ delivered_at }) => delivered_at && <Instant at={delivered_at} />,
        Created: ({ created_at }) => <Instant at={created_at} />,
      }}
    />
  )
}
