// What only people can do again after the database has lost changes.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { formatInstant } from '../../kit/Instant.tsx'

const TO_REPEAT: { title: string; text: ReactNode }[] = [
  {
    title: 'Revoked and rotated API keys',
    text: 'They work again: revoke them again. Keys that were created are gone: create them again.',
  },
  {
    title: 'Erased customers',
    text: 'They are back with their data: delete them again.',
  },
  {
    title: 'Ended sessions, passwords and members',
    text: (
      <>
        Sessions that were ended, and members who were removed, are back. Passwords, codes and passkeys are
        the ones from before: end sessions with <code>npm run users</code>.
      </>
    ),
  },
  {
    title: 'Pauses',
    text: (
      <>
        Queues and tenants that were paused run again, and resumed ones are paused: see{' '}
        <Link to="/ops/queues">Queues</Link>.
      </>
    ),
  },
  {
    title: 'Webhook endpoints and their secrets',
    text: 'New endpoints are gone, and changed ones have their earlier address, events and secret: their receivers refuse the signature.',
  },
  {
    title: 'Suppressions',
    text: 'Addresses that people entered by hand get messages again, and so do those of bounces, complaints and unsubscriptions of email: suppress them before you release the messages. Opt-outs by SMS are read again.',
  },
  {
    title: 'Decisions',
    text: (
      <>
        Decided verifications, <Link to="/ops/proposals">proposals</Link> and resolved calls are open again.
      </>
    ),
  },
]

/** `since` and `until`: the time whose changes may be lost. */
export function RepeatByHand({ since, until }: { since: string; until: string }) {
  return (
    <section className="section">
      <h2>What people must do again</h2>
      <p className="dim recovery-note">
        No provider and no caller repeats what people did from {formatInstant(since)} until{' '}
        {formatInstant(until)}. Ask the operators and the owners of the tenants.
      </p>
      <ul className="repeat-list" aria-label="What people must do again">
        {TO_REPEAT.map(({ title, text }) => (
          <li key={title}>
            <strong>{title}</strong>
            <span className="dim">{text}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}
