// The Stripe emulator for the emulator's own tests: Stripe's SDK, the control API, and a separate process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Stripe } from 'stripe'

export const EMULATOR_KEY = 'sk_test_emulator'

/** Stripe's SDK, and the emulator's control API. */
export function clientsOf(url: string) {
  const { hostname, port } = new URL(url)
  const stripe = new Stripe(EMULATOR_KEY, {
    host: hostname,
    port,
    protocol: 'http',
    telemetry: false,
    maxNetworkRetries: 0,
    timeout: 5_000,
  })
  async function control(method: string, path: string, body?: unknown): Promise<any> {
    const response = await fetch(`${url}/_emulator/${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return response.json()
  }
  return { stripe, control }
}

/** The Stripe error of a refused call. */
export async function refusal(call: Promise<unknown>): Promise<Stripe.errors.StripeError> {
  const error = await call.then(
    () => null,
    (reason: unknown) => reason,
  )
  if (!(error instanceof Stripe.errors.StripeError))
    throw new Error(`the call did not fail with a Stripe error: ${String(error)}`)
  return error
}

/** Event types of one object, oldest first. */
export async function eventsAbout(stripe: Stripe, id: string): Promise<string[]> {
  const { data } = await stripe.events.list({ limit: 100 })
  return data
    .filter((event) => 'id' in event.data.object && event.data.object.id === id)
    .map((event) => event.type)
    .toReversed()
}

/** The effects of one object, with amount and source. */
export async function effectsAbout(
  control: ReturnType<typeof clientsOf>['control'],
  resource: string,
  id: string,
): Promise<[string, number, string][]> {
  const { data } = await control('GET', `effects?${resource}=${id}`)
  return data.map((line: any) => [line.effect, line.amount, line.source])
}

/** Posts a form, as Stripe's SDK does. */
export async function postForm(url: string, path: string, params: string, key: string): Promise<Response> {
  return fetch(`${url}${path}`, {
    method: 'POST',
    body: new URLSearchParams(params),
    headers: { authorization: `Bearer ${EMULATOR_KEY}`, 'idempotency-key': key },
  })
}

/** Starts the emulator as a separate process that stores its data in a folder. */
export async function runEmulator(data_dir: string, ...flags: string[]) {
  const child = spawn(
    process.execPath,
    [
      'src/emulators/stripe/main.ts',
      '--port=0',
      `--api-key=${EMULATOR_KEY}`,
      `--data-dir=${data_dir}`,
      ...flags,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return {
    url: String(JSON.parse(line.toString()).stripe_url),
    kill: () => child.kill('SIGKILL'),
    async stop() {
      const exit = once(child, 'exit')
      child.kill('SIGTERM')
      return (await exit)[0] as number | null
    },
  }
}

/** Presses the first button with this name, of the object `id` if `id` is set, with these form fields. */
export async function pressButton(
  url: string,
  name: string,
  id: string | null,
  fields: Record<string, string> = {},
): Promise<string> {
  const page = await (await fetch(url)).text()
  const forms = page.matchAll(
    new RegExp(`<form method="post" action="/_emulator/page/${name}">[^]*?</form>`, 'g'),
  )
  for (const [form] of forms) {
    const hidden = Object.fromEntries(
      Array.from(form.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g), ([, field, value]) => [
        field!,
        value!,
      ]),
    )
    const isOther = hidden.value !== undefined && fields.value !== undefined && hidden.value !== fields.value
    if ((id !== null && hidden.id !== id) || isOther) continue
    const body = new URLSearchParams({ ...hidden, ...fields })
    const back = await fetch(`${url}/_emulator/page/${name}`, { method: 'POST', body })
    if (back.status === 200 && new URL(back.url).pathname === '/') return await back.text()
    throw new Error(`${name}: ${back.status} ${await back.text()}`)
  }
  throw new Error(`There is no button ${name}.`)
}
