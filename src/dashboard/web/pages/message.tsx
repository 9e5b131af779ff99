// One message: what was sent, to whom, and what became of it.
import { Button } from '@mantine/core'
import { CircleAlert } from 'lucide-react'
import { useState } from 'react'
import type { Message, TimelineEntry } from '#sdk/index.ts'
import { acted, ActedOutcome } from '../kit/Acted.tsx'
import { usePathParam } from '../address.ts'
import { sluice } from '../api.ts'
import { Bone } from '../kit/Bone.tsx'
import { CodeBlock } from '../kit/CodeBlock.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { formatInstant, Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { Timeline } from '../kit/Timeline.tsx'
import { MessageContent } from '../messages/MessageContent.tsx'
import { messageTimeline } from '../messages/timeline.ts'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'

const OVER = ['delivered', 'undelivered', 'failed', 'canceled', 'suppressed']

export function MessagePage() {
  const id = usePathParam('id')
  const path = `/v1/messages/${id}` as const
  const {
    data: message,
    error,
    refetch,
    dataUpdatedAt,
  } = useAnswer<Message>(path, undefined, { every_ms: 5_000 })
  const { data: entries } = useAnswer<TimelineEntry[]>(`${path}/timeline`, undefined, {
    every_ms: message !== undefined && OVER.includes(message.status) ? 30_000 : 5_000,
  })
  const may_cancel = useMay('cancelMessage')
  const [canceling, setCanceling] = useState(false)
  const above = { to: '/messages', title: 'Messages' }
  if (error !== null && message === undefined)
    return <FailedPage title="Message" above={above} error={error} retry={refetch} />
  const cancelable = message?.status === 'scheduled' || message?.status === 'queued'
  const title = message && (message.subject ?? (message.channel === 'sms' ? 'SMS' : 'Email'))
  const to = message && [message.to].flat()
  return (
    <>
      <PageHeader
        title={title ?? 'Message'}
        heading={
          message && (
            <span className="line">
              {title} <Status status={message.status} pill />
            </span>
          )
        }
        above={above}
        as_of={dataUpdatedAt}
        description={message && `To ${to?.join(', ') ?? ''}`}
        actions={
          may_cancel && cancelable && <Button onClick={() => setCanceling(true)}>Cancel message</Button>
        }
      />
      {message && <MessageStory message={message} />}
      <div className="columns">
        <div>
          <section className="section">
            <h2>What was sent</h2>
            {message === undefined ? <Bone width="80%" /> : <MessageContent message={message} />}
          </section>
          {message?.recipients && message.recipients.length > 0 && (
            <section className="section">
              <h2>Recipients</h2>
              <Recipients recipients={message.recipients} />
            </section>
          )}
          <section className="section">
            <h2>Timeline</h2>
            {entries && <Timeline items={messageTimeline(entries)} />}
          </section>
        </div>
        <div>
          <MessageFacts message={message} id={id} />
          {message && Object.keys(message.metadata ?? {}).length > 0 && (
            <section className="section">
              <h2 className="side-title">Metadata</h2>
              <Json value={message.metadata} label="metadata" />
            </section>
          )}
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
        </div>
      </div>
      <ConfirmDialog
        opened={canceling}
        onClose={() => setCanceling(false)}
        title="Cancel this message?"
        action="Cancel message"
        tone="bad"
        does={`Nothing is sent to ${to?.length === 1 ? to[0] : `the ${to?.length ?? 0} recipients`}. This cannot be undone.`}
        act={(idempotency_key) => acted(sluice.messages.cancel(id, {}, { idempotency_key }))}
        onDone={() => invalidate('/v1/messages')}
        outcome={(asked) => (
          <ActedOutcome of={asked} also_accepted>
            The message is <Status status={asked.data.status} />
          </ActedOutcome>
        )}
      />
    </>
  )
}

/** What went wrong, or what is waited for; nothing where all is well. */
function MessageStory({ message: { status, failure, send_at, redacted_at } }: { message: Message }) {
  const words =
    failure !== null
      ? `${failure.message}${failure.provider_code === null ? '' : ` The provider says ${failure.provider_code}.`}`
      : status === 'unknown'
        ? 'Nobody knows whether it was sent: the answer was lost. It is looked up, and not sent again.'
        : status === 'scheduled' && send_at !== null
          ? `It is sent at ${formatInstant(send_at)}. Until then it can be canceled.`
          : status === 'suppressed'
            ? 'Its recipients are suppressed, so nothing was sent.'
            : null
  if (words === null && redacted_at === null) return null
  return (
    <div className="note" data-tone={failure === null ? undefined : 'bad'} role="note">
      <CircleAlert size={16} aria-hidden />
      <div>
        {words} {redacted_at !== null && 'What it said was erased.'}
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
            <th scope="col">What the server said</th>
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
  const listed = (values: string[] | null | undefined) => values && values.length > 0 && values.join(', ')
  return (
    <Facts
      facts={{
        Id: <Id id={id} />,
        Channel: message && (message.channel === 'sms' ? 'SMS' : 'Email'),
        From: message?.from,
        'Copies to': message && listed(message.cc),
        'Blind copies to': message && listed(message.bcc),
        'Answers to': message && message.reply_to,
        Tags: message && listed(message.tags),
        Provider: message?.provider,
        Reference: message && message.provider_reference !== null && (
          <Id id={message.provider_reference} label="reference" />
        ),
        Segments: message && message.segments !== null && `${message.segments}, ${message.encoding ?? ''}`,
        Price:
          message &&
          message.price !== null &&
          `${message.price.amount} ${message.price.currency.toUpperCase()}`,
        'Send at': message && message.send_at !== null && <Instant at={message.send_at} />,
        Sent: message && message.sent_at !== null && <Instant at={message.sent_at} />,
        Delivered: message && message.delivered_at !== null && <Instant at={message.delivered_at} />,
        Created: message && <Instant at={message.created_at} />,
      }}
    />
  )
}
