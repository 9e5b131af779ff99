// Texts and addresses of the measured messages, the same for product and floor.
import { randomInt, randomUUID } from 'node:crypto'
import type { Channel } from '#core/addresses.ts'

export const EMAIL_TEXTS = {
  subject: 'Your order A-17 has shipped',
  text: `Hello Ada,\n\nyour order A-17 is on its way.\n${'It left our house this morning. '.repeat(8)}\n\nYour shop`,
  html: `<h1>Hello Ada,</h1><p>your order A-17 is on its way.</p><p>${'It left our house this morning. '.repeat(12)}</p>`,
}
export const SMS_TEXT = 'Your order A-17 has shipped. It left our house this morning and comes tomorrow.'

/** A new address each time, so that no destination limit is reached and no limit row is contended. */
export function newAddress(channel: Channel): string {
  return channel === 'email'
    ? `${randomUUID()}@example.com`
    : `+1415${randomInt(200, 1000)}${String(randomInt(10_000)).padStart(4, '0')}`
}
