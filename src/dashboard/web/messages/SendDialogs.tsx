// The dialogs that send one email or one SMS.
import { NativeSelect, Textarea, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Message, MessageTemplate } from '#sdk/index.ts'
import { actResponse, ActResultText, type ActResponse } from '../kit/ActResult.tsx'
import { sluice } from '../api.ts'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Status } from '../kit/Status.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { parseVariables, VariablesField } from './VariablesField.tsx'

type MessageForm = {
  to: string
  subject: string
  text: string
  template: string
  variables: string
  send_at: string
}

const EMPTY_FORM: MessageForm = { to: '', subject: '', text: '', template: '', variables: '{}', send_at: '' }

export function SendEmailDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [fields, set] = useState(EMPTY_FORM)
  const { to, subject, text, template } = fields
  const recipients = to.split(/[,;\n]/).flatMap((address) => address.trim() || [])
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Send an email"
      action="Send email"
      effect={`It goes to ${recipients.length === 1 ? 'one recipient' : `${recipients.length} recipients`} and cannot be recalled once it is sent.`}
      ready={recipients.length > 0 && isComplete(fields, subject.trim() !== '' && text.trim() !== '')}
      act={(idempotency_key) =>
        actResponse(
          sluice.messages.sendEmail(
            {
              to: recipients,
              ...(template === '' ? { subject, text } : templateContent(fields)),
              ...schedule(fields),
            },
            { idempotency_key },
          ),
        )
      }
      onDone={() => invalidate('/v1/messages')}
      outcome={(done) => <SentOutcome done={done} />}
    >
      <TextInput
        label="To"
        description="Separate recipients with commas."
        placeholder="Ada <ada@example.com>"
        data-autofocus
        value={to}
        onChange={(event) => set({ ...fields, to: event.currentTarget.value })}
      />
      <TemplateFields channel="email" fields={fields} set={set} opened={opened} />
      {template === '' && (
        <>
          <TextInput
            label="Subject"
            value={subject}
            onChange={(event) => set({ ...fields, subject: event.currentTarget.value })}
          />
          <Textarea
            label="Text"
            autosize
            minRows={4}
            maxRows={12}
            value={text}
            onChange={(event) => set({ ...fields, text: event.currentTarget.value })}
          />
        </>
      )}
      <SendAtField fields={fields} set={set} />
    </ConfirmDialog>
  )
}

export function SendSmsDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [fields, set] = useState(EMPTY_FORM)
  const { to, text, template } = fields
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Send an SMS"
      action="Send SMS"
      effect="It goes to one number at the provider's price, and cannot be recalled once it is sent."
      ready={to.trim() !== '' && isComplete(fields, text.trim() !== '')}
      act={(idempotency_key) =>
        actResponse(
          sluice.messages.sendSms(
            {
              to: to.trim(),
              ...(template === '' ? { body: text } : templateContent(fields)),
              ...schedule(fields),
            },
            { idempotency_key },
          ),
        )
      }
      onDone={() => invalidate('/v1/messages')}
      outcome={(done) => <SentOutcome done={done} />}
    >
      <TextInput
        type="tel"
        label="To"
        placeholder="+14155552671"
        data-autofocus
        value={to}
        onChange={(event) => set({ ...fields, to: event.currentTarget.value })}
      />
      <TemplateFields channel="sms" fields={fields} set={set} opened={opened} />
      {template === '' && (
        <Textarea
          label="Text"
          autosize
          minRows={3}
          maxLength={1600}
          value={text}
          onChange={(event) => set({ ...fields, text: event.currentTarget.value })}
        />
      )}
      <SendAtField fields={fields} set={set} />
    </ConfirmDialog>
  )
}

type FieldProps = { fields: MessageForm; set: (fields: MessageForm) => void }

function TemplateFields({
  channel,
  fields,
  set,
  opened,
}: FieldProps & { channel: 'email' | 'sms'; opened: boolean }) {
  const { data } = useAnswer<MessageTemplate[]>('/v1/messages/templates', { limit: 100 }, { enabled: opened })
  const names = (data ?? []).filter((template) => template.channel === channel).map(({ name }) => name)
  return (
    <>
      <NativeSelect
        label="Template"
        value={fields.template}
        onChange={(event) => set({ ...fields, template: event.currentTarget.value })}
        data={[{ value: '', label: 'None' }, ...names]}
      />
      {fields.template !== '' && (
        <VariablesField value={fields.variables} onChange={(variables) => set({ ...fields, variables })} />
      )}
    </>
  )
}

function SendAtField({ fields, set }: FieldProps) {
  return (
    <TextInput
      type="datetime-local"
      label="Send at"
      description="Leave empty to send now. Up to 30 days ahead."
      value={fields.send_at}
      onChange={(event) => set({ ...fields, send_at: event.currentTarget.value })}
    />
  )
}

function SentOutcome({ done }: { done: ActResponse<Message> }) {
  return (
    <ActResultText of={done} true_if_accepted>
      <Status status={done.data.status} /> <Link to={`/messages/${done.data.id}`}>See the message</Link>
    </ActResultText>
  )
}

function isComplete({ template, variables }: MessageForm, has_content: boolean): boolean {
  return template === '' ? has_content : parseVariables(variables) !== undefined
}

function templateContent({ template, variables }: MessageForm) {
  return { template, variables: parseVariables(variables) ?? {} }
}

function schedule({ send_at }: MessageForm) {
  return send_at === '' ? {} : { send_at: new Date(send_at).toISOString() }
}
