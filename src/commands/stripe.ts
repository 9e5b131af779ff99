// `npm run stripe`: what Stripe has to be told of us.
import { parseArgs } from 'node:util'
import { ConfigError } from '#core/config.ts'
import { errorText } from '#core/startup.ts'
import { API_VERSION, EVENT_TYPES } from '#providers/stripe/events.ts'
import { print } from './print.ts'

const HELP = `sluice stripe: what Stripe has to be told of us.

  npm run stripe -- events [--comma]

events   the types of events that the webhook endpoint at Stripe has to send, one on each line. Others change nothing; some cost a request to Stripe.
         --comma: on one line, for the Stripe CLI and the dashboard, e.g. stripe listen --events "$(npm run -s stripe -- events --comma)"

Give the endpoint the API version ${API_VERSION}: events of another version are not compared with what is known here, so each costs a request to Stripe.`

function main(): void {
  const { positionals, values } = parseArgs({
    options: { comma: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
  })
  const [command] = positionals
  if (values.help === true || command === undefined) return print(HELP)
  if (command !== 'events') throw new ConfigError(`There is no command "${command}". See --help.`)
  print(EVENT_TYPES.join(values.comma === true ? ',' : '\n'))
}

try {
  main()
} catch (error) {
  process.stderr.write(`${errorText(error)}\n`)
  process.exitCode = 1
}
