// Reads messages and decrypts their sealed parts.
import { z } from 'zod'
import { bareAddress } from '#core/addresses.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { Vault } from '#core/secrets.ts'
import { findMessages } from '#domain/messages/find.ts'
import {
  messageContent,
  messageEnvelope,
  recipientAddresses,
  type Message,
  type MessageContent,
  type MessageEnvelope,
  type MessageRow,
} from '#domain/messages/message.ts'
import { messageContext } from '#domain/messages/sealed.ts'
import { batchedFind, type ResourceReader } from '../../accept.ts'
import type { ApiContext } from '../../context.ts'

export function createMessageReader({ sql, vault }: ApiContext): ResourceReader<Message> {
  const find = batchedFind('find_message', (requested) => findMessages(sql, requested), 'message_not_found')
  return {
    async find(requested) {
      const { resource, job } = await find(requested)
      return { resource: openMessage(vault, resource), job }
    },
    pathOf: ({ id }) => `/v1/messages/${id}`,
    idsOf: ({ id }) => ({ message_id: id }),
  }
}

/** The content of a message whose texts are erased or were not read. */
const NO_CONTENT: MessageContent = {
  text: null,
  html: null,
  body: null,
  headers: null,
  attachments: null,
  validity_s: null,
}

/**
 * Decrypts a message for an answer. Throws `SealError` if no key of this process decrypts it. The content of system
 * messages is never shown: the link of an invitation lets its reader act as the invited person.
 */
export function openMessage(vault: Vault, { envelope, content, ...row }: MessageRow): Message {
  const { tenant_id, id } = row
  const openPart = <Part>(schema: z.ZodType<Part>, column: 'envelope' | 'content', sealed: string): Part =>
    schema.parse(JSON.parse(vault.open(sealed, messageContext(tenant_id, id, column))))
  return messageView(
    row,
    openPart(messageEnvelope, 'envelope', envelope),
    content === null || tenant_id === SYSTEM_TENANT_ID
      ? NO_CONTENT
      : openPart(messageContent, 'content', content),
  )
}

/** The answer for a decrypted message. The row and the envelope have the recipients in the same order. */
export function messageView(
  { recipients, ...row }: Omit<MessageRow, 'envelope' | 'content'>,
  envelope: MessageEnvelope,
  content: MessageContent,
): Message {
  if (row.channel === 'sms') return { ...row, ...envelope, to: envelope.to[0]!, ...content, recipients: null }
  const addresses = recipientAddresses(envelope)
  return {
    ...row,
    ...envelope,
    ...content,
    recipients: recipients.map(({ status, code, message }, nth) => ({
      address: bareAddress(addresses[nth]!),
      status,
      code,
      message,
    })),
  }
}
