// The template: a text with places for what differs from message to message.
import { z } from 'zod'
import { idFields, keyField, lastFields } from '../fields.ts'
import { messageChannel } from '../messages/message.ts'
import type { Subject } from '../subject.ts'

const source = (description: string, example: string | null) =>
  z.string().nullable().meta({ description, example })

export const templateSchema = z
  .object({
    ...idFields('template', '0198f6f7-91d2-7000-8000-123456789abc'),
    idempotency_key: keyField('template-shipped').nullable(),
    name: z.string().meta({ description: 'Unique among your templates.', example: 'order_shipped' }),
    channel: messageChannel,
    subject: source('Of an email.', 'Order {{ order.number }} has shipped'),
    text: source('The text of an email.', 'Hello {{ name }}, it is on its way.'),
    html: source('The HTML of an email; what is filled in is escaped.', '<p>Hello {{ name }}</p>'),
    body: source('The text of an SMS.', null),
    ...lastFields('templates'),
  })
  .meta({ id: 'MessageTemplate', description: 'A text in Liquid, rendered when a message is accepted.' })
export type Template = z.output<typeof templateSchema>

export const templateSubject = {
  table: 'message_templates',
  view: templateSchema,
  events: {
    created: 'A template was made.',
    updated: 'A template was changed.',
    deleted: 'A template was deleted.',
  },
} as const satisfies Subject
