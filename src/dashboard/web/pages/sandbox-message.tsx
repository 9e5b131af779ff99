// One message in the sandbox's inbox, and the answer to an SMS.
import { Button } from '@mantine/core'
import { Reply } from 'lucide-react'
import { usePathParam } from '../address.ts'
import { useDialogs } from '../dialogs.ts'
import type { Answers } from '../generated/answers.ts'
import { ErrorPage } from '../kit/ErrorPage.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Skeleton } from '../kit/Skeleton.tsx'
import { Status } from '../kit/Status.tsx'
import { MessageContent } from '../messages/MessageContent.tsx'
import { useAnswer } from '../queries.ts'
import { ReplyDialog } from '../sandbox/dialogs.tsx'
import { useMay } from '../session.tsx'

type InboxMessage = Answers['GET /sandbox/messages/{id}']

const PARENT = { to: '/sandbox', title: 'Sandbox' }

export function SandboxMessagePage() {
  const id = usePathParam('id')
  const query = useAnswer<InboxMessage>(`/sandbox/messages/${id}`)
  const { data: message, error, refetch } = query
  const may_use = useMay('sandbox.use')
  const { begin, opening, props } = useDialogs<'reply'>()
  if (error !== null && message === undefined)
    return <ErrorPage title="Message" parent={PARENT} error={error} retry={refetch} />
  return (
    <>
      <PageHeader
        title={message?.channel === 'sms' ? 'SMS' : (message?.subject ?? 'Message')}
        parent={PARENT}
        read={query}
        description={message === undefined ? <Skeleton width={200} /> : `To ${message.to.join(', ')}`}
        actions={
          may_use &&
          message?.channel === 'sms' &&
          message.status !== 'received' && (
            <Button variant="filled" leftSection={<Reply size={14} />} onClick={() => begin('reply')}>
              Answer
            </Button>
          )
        }
      />
      <div className="columns">
        <section>
          {message === undefined ? <Skeleton width="80%" /> : <MessageContent message={contentOf(message)} />}
        </section>
        <Facts
          of={message}
          facts={{
            From: ({ from }) => from,
            To: ({ to }) => to.join(', '),
            Status: ({ status }) => <Status status={status} />,
            Created: ({ created_at }) => <Instant at={created_at} />,
            Reference: ({ reference }) => <Id id={reference} label="reference" />,
          }}
        />
      </div>
      {message && (
        <div key={opening}>
          <ReplyDialog id={id} phone={message.to[0] ?? ''} {...props('reply')} />
        </div>
      )}
    </>
  )
}

function contentOf({ text, html, attachments }: InboxMessage) {
  const sized = attachments.map(({ bytes, ...attachment }) => ({ ...attachment, size: bytes }))
  return { text, html, body: null, attachments: sized }
}
