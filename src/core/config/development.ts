// The variables of `npm start`: emulators, and the folder of embedded servers.
import { z } from 'zod'
import { port, type VariableRow } from './row.ts'

export const DEVELOPMENT_VARIABLES = {
  ALLOW_EMULATORS: [
    z.stringbool().default(false),
    'true',
    '`npm start` uses embedded servers and emulators even in production',
    ['start'],
  ],
  EMULATOR_PORT: [port(3010), '3010', 'port of the Stripe emulator', ['start']],
  TWILIO_EMULATOR_PORT: [port(3011), '3011', 'port of the Twilio emulator', ['start']],
  SMTP_EMULATOR_PORT: [port(3012), '3012', 'port of the SMTP emulator', ['start']],
  INBOX_PORT: [port(3013), '3013', 'port of the page that shows what the SMTP emulator received', ['start']],
  AI_EMULATOR_PORT: [port(3014), '3014', 'port of the AI emulator', ['start']],
  EMULATOR_EVENTS: [
    z.enum(['needed', 'all']).default('needed'),
    'all',
    'events that the Stripe emulator sends: those of `npm run stripe -- events`, or all',
    ['start'],
  ],
  DATA_DIR: [
    z.string().min(1).default('.data'),
    '.data',
    'folder of `npm start`: embedded servers, secrets, log, `dev.json`',
    ['commands', 'migrate', 'start'],
  ],
} as const satisfies Record<string, VariableRow>
