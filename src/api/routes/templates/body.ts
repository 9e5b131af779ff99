// The bodies of requests about templates.
import { z } from 'zod'
import { anyJson } from '#core/json.ts'
import { messageChannel } from '#domain/messages/message.ts'
import { MAX_SOURCE_LENGTH } from '#domain/templates/limits.ts'
import { TEMPLATE_ID } from '#domain/templates/find.ts'
import { findPartFaults } from '#domain/templates/template.ts'
import {
  updateBodyOf,
  FEW_VALUES_ERROR,
  hasFewValues,
  idempotencyKey,
  metadata,
  metadataValue,
} from '../../body.ts'

const templateName = z
  .string()
  .regex(/^[a-z0-9_-]{1,64}$/, { error: 'must be 1 to 64 characters: a to z, 0 to 9, _ and -' })
  .refine((name) => !TEMPLATE_ID.test(name), { error: 'must not look like an id' })
  .meta({ description: 'Unique among your templates.', example: 'order_shipped' })

const part = (most: number) => z.string().min(1).max(most)
const SUBJECT = {
  description: 'The subject of an email; renders to one line.',
  example: 'Order {{ order.number }} has shipped',
}
const TEXT = { description: 'The text of an email.', example: 'Hello {{ name }}, it is on its way.' }
const HTML = {
  description: 'The HTML of an email; values are escaped.',
  example: '<p>Hello {{ name }}</p>',
}
const BODY = { description: 'The text of an SMS.', example: null }
const parts = {
  subject: part(1_000),
  text: part(MAX_SOURCE_LENGTH),
  html: part(MAX_SOURCE_LENGTH),
  body: part(10_000),
}
/** An optional text; null if left out. */
const optional = (schema: z.ZodString) => schema.nullish().transform((text) => text ?? null)

const fields = z.strictObject({
  name: templateName,
  channel: messageChannel,
  subject: optional(parts.subject).meta(SUBJECT),
  text: optional(parts.text).meta(TEXT),
  html: optional(parts.html).meta(HTML),
  body: optional(parts.body).meta(BODY),
  metadata,
  idempotency_key: idempotencyKey.meta({ example: 'template-shipped' }).optional(),
})

export const createTemplateBody = fields
  .superRefine((template, check) => {
    for (const { param, message } of findPartFaults(template))
      check.addIssue({ code: 'custom', path: [param], message })
  })
  .meta({ id: 'CreateMessageTemplate', description: 'The template to create.' })

const patch = z
  .strictObject({
    name: templateName,
    subject: parts.subject.nullable().meta(SUBJECT),
    text: parts.text.nullable().meta(TEXT),
    html: parts.html.nullable().meta(HTML),
    body: parts.body.nullable().meta(BODY),
    metadata: metadataValue,
  })
  .partial()
  .meta({ id: 'UpdateMessageTemplate', description: 'The fields to change.' })
export const updateTemplateBody = updateBodyOf(patch, fields, 'delete the template')

/** The variables of a template. */
const templateVariables = z
  .record(z.string(), anyJson)
  .refine(hasFewValues, FEW_VALUES_ERROR)
  .meta({
    description: 'The variables of the template: any JSON, up to 1,000 values.',
    example: { name: 'Ada', order: { number: 'A-17' } },
  })

export const previewBody = z
  .strictObject({ variables: templateVariables.default({}) })
  .meta({ id: 'PreviewMessageTemplate', description: 'The variables to render with.' })
