// `npm run stripe`: prints the settings of the webhook endpoint at Stripe.
import { parseArgs } from 'node:util'
import { ConfigError } from '#core/config.ts'
import { API_VERSION, EVENT_TYPES } from '#providers/stripe/events.ts'
import { refuseSurplus } from './arguments.ts'
import { print } from './print.ts'
import { runAsProgram } from './program.ts'

const HELP = `sluice stripe: the settings of the webhook endpoint at Stripe.

  npm run stripe -- events [--comma]

events   prints the event types that the endpoint needs, one per line. Other types have no effect; some cost a request
         to Stripe.
         --comma: on one line, for the Stripe CLI and the dashboard, e.g.
         stripe listen --events "$(npm run -s stripe -- events --comma)"

Set the API version of the endpoint to ${API_VERSION}. An event of another version is never used directly: each costs
a request to Stripe.`

async function stripeCommand(args: string[]): Promise<void> {
  const { positionals, values } = parseArgs({
    args,
    options: { comma: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
  })
  const [command] = positionals
  if (values.help === true || command === undefined) return print(HELP)
  if (command !== 'events') throw new ConfigError(`There is no command "${command}". See --help.`)
  refuseSurplus(positionals, HELP)
  print(EVENT_TYPES.join(values.comma === true ? ',' : '\n'))
}

await runAsProgram(stripeCommand)
