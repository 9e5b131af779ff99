// Opens the sealed parts of a message.
import { z } from 'zod'

import { bareAddress } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import type { Vault } from '#core/secrets.ts'
import {
  messageContent,
  messageEnvelope,
  type MessageContent,
  type MessageEnvelope,
} from '#domain/messages/message.ts'
import { messageContext } from '#domain/messages/sealed.ts'
import type { NewSuppression } from '#domain/suppressions/settle.ts'
import { suppressionContext, type Suppression } from '#domain/suppressions/suppression.ts'

/** Sealed content cannot be read. The error's message names the part and reveals nothing of the content. */
export class UnreadableContentError extends Error {}

type Ids = { tenant_id: string; message_id: string }

/** Throws SealError and UnreadableContentError. */
export function openEnvelope(vault: Vault, { tenant_id, message_id }: Ids, sealed: string): MessageEnvelope {
  const text = vault.open(sealed, messageContext(tenant_id, message_id, 'envelope'))
  return parsePart(messageEnvelope, text, 'envelope')
}

/** Throws SealError and UnreadableContentError, also if the content was erased. */
export function openContent(
  vault: Vault,
  { tenant_id, message_id }: Ids,
  sealed: string | null,
): MessageContent {
  if (sealed === null) throw new UnreadableContentError('the content of the message was erased')
  const text = vault.open(sealed, messageContext(tenant_id, message_id, 'content'))
  return parsePart(messageContent, text, 'content')
}

function parsePart<T>(schema: z.ZodType<T>, text: string, what: string): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The parser's error is not used, because its message contains the text.
  }
  const { data } = schema.safeParse(value)
  if (data === undefined) throw new UnreadableContentError(`the ${what} of the message cannot be read`)
  return data
}

/** The Message-ID of an email: the same for each attempt, so that a duplicate can be recognized. */
export function messageIdOf(message_id: string, { from }: MessageEnvelope): string {
  return `<${message_id}@${bareAddress(from).split('@').at(-1)}>`
}

/** A suppression of this address because of the message. */
export function suppressionOf(
  vault: Vault,
  tenant_id: string,
  { address, hash, reason }: { address: string; hash: string; reason: Suppression['reason'] },
): NewSuppression {
  const suppression_id = newId()
  const sealed = vault.seal(address, suppressionContext(tenant_id, suppression_id))
  return { suppression_id, address: hash, sealed, reason }
}
