// The template: the texts of a message with variables.
import { z } from 'zod'
import type { Channel } from '#core/addresses.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'
import { messageChannel } from '../messages/message.ts'
import type { Resource } from '../resource.ts'

const PART_NAMES = ['subject', 'text', 'html', 'body'] as const
type PartName = (typeof PART_NAMES)[number]
/** The parts of each channel's templates: all of `required`, and at least one of `either`. */
const PARTS: Record<Channel, { required: PartName[]; either: PartName[] }> = {
  email: { required: ['subject'], either: ['text', 'html'] },
  sms: { required: ['body'], either: [] },
}

const source = (description: string, example: string | null) =>
  z.string().nullable().meta({ description, example })

/** A template in events, without its sources, because they can be long. */
export const templateEventSchema = z
  .object({
    ...idFields('template', '0198f6f7-91d2-7000-8000-123456789abc'),
    idempotency_key: keyField('template-shipped').nullable(),
    name: z.string().meta({ description: 'Unique among your templates.', example: 'order_shipped' }),
    channel: messageChannel,
    ...trailingFields('templates'),
  })
  .meta({ id: 'MessageTemplateEventData', description: 'The template as it was then, without its texts.' })

/** A template in answers. */
export const templateSchema = templateEventSchema
  .extend({
    subject: source('The subject of an email.', 'Order {{ order.number }} has shipped'),
    text: source('The text of an email.', 'Hello {{ name }}, it is on its way.'),
    html: source('The HTML of an email; values are escaped.', '<p>Hello {{ name }}</p>'),
    body: source('The text of an SMS.', null),
  })
  .meta({
    id: 'MessageTemplate',
    description:
      'A template: a text in Liquid, rendered when a message is accepted. `text`, `html` and `body` are null in lists.',
  })
export type Template = z.output<typeof templateSchema>

/** The fields of a template that determine its output. */
export type TemplateParts = Pick<Template, 'channel' | PartName>

/** A rendered template. */
export const renderedTemplateSchema = z
  .object({
    subject: source('The subject of an email.', 'Order A-17 has shipped'),
    text: source('The text of an email.', 'Hello Ada, it is on its way.'),
    html: source('The HTML of an email.', '<p>Hello Ada</p>'),
    body: source('The text of an SMS.', null),
  })
  .meta({ id: 'RenderedTemplate', description: 'A template rendered with these variables.' })
export type RenderedTemplate = z.output<typeof renderedTemplateSchema>

export const templateResource = {
  table: 'templates',
  view: templateEventSchema,
  events: {
    created: 'A template was created.',
    updated: 'A template was updated.',
    deleted: 'A template was deleted.',
  },
} as const satisfies Resource

/** The names and texts of a template's parts. */
export function partsOfTemplate(template: TemplateParts): [name: PartName, text: string][] {
  return PART_NAMES.flatMap((name) => {
    const text = template[name]
    return text === null ? [] : [[name, text] as [PartName, string]]
  })
}

/** Whether values in this part are escaped. */
export function isHtml(part: string): boolean {
  return part === 'html'
}

/** The missing and unsupported parts of a template, each with an error message. */
export function findPartFaults(template: TemplateParts): { param: string; message: string }[] {
  const { channel } = template
  const { required, either } = PARTS[channel]
  const has = partsOfTemplate(template).map(([name]) => name)
  const fault = (message: string) => (param: PartName) => ({ param, message })
  const missing = required.filter((name) => !has.includes(name))
  const unsupported = has.filter((name) => ![...required, ...either].includes(name))
  const none = either.some((name) => has.includes(name)) ? [] : either.slice(0, 1)
  return [
    ...missing.map(fault(`is required in a template for ${channel}`)),
    ...none.map(fault(`is required in a template for ${channel}, or ${either.slice(1).join()}`)),
    ...unsupported.map(fault(`is not allowed in a template for ${channel}`)),
  ]
}
