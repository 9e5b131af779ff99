// The page of the AI emulator: completions, requests, refusals and faults.
import { answered, faultSection, refusalRow, REFUSAL_COLUMNS } from '../shared/fault-page.ts'
import { document, escape, section } from '../shared/html.ts'
import { latestRequests } from '../shared/requests.ts'
import { AI_FAULT_TARGETS, completionCount, type AiEmulator } from './emulator.ts'
import { quantity } from '#core/describe.ts'

const MAX_ROWS = 25
const REFRESH_S = 5
const TRIGGERS = ['refuse', '429', '500', 'garbage', 'slow']

/** The page at `/`. The query `refresh` reloads it every few seconds. */
export function aiPage(emulator: AiEmulator, query: string): string {
  const { url, completions, requests, faults } = emulator
  const refreshing = query === 'refresh'
  const refused = latestRequests(
    requests,
    MAX_ROWS,
    ({ refusal, fault }) => refusal !== null || fault !== null,
  )
  const triggers = TRIGGERS.map((each) => `<code>[[${each}]]</code>`).join(', ')
  const body = [
    `<p>An emulated server of models at <code>${escape(url)}/v1</code>. Answers are generated from the request, without a model. ${quantity(completionCount(emulator), 'completion')}, ${quantity(requests.total, 'request')}.</p>`,
    `<p>${triggers} in a prompt or text trigger that failure.</p>`,
    `<p>${refreshing ? `Shown again every ${REFRESH_S} s. <a href="/">Stop</a>` : `<a href="/">Show again</a> or <a href="/?refresh">every ${REFRESH_S} s</a>`}</p>`,
    section(
      'Completions',
      ['at', 'model', 'format', 'input tokens', 'output tokens', 'idempotency key'],
      completions
        .slice(-MAX_ROWS)
        .toReversed()
        .map(({ at, model, format, input_tokens, output_tokens, idempotency_key }) => [
          at,
          model,
          format,
          String(input_tokens),
          String(output_tokens),
          idempotency_key ?? '',
        ]),
    ),
    faultSection(faults, Object.keys(AI_FAULT_TARGETS)),
    section('Refusals and faults met', REFUSAL_COLUMNS, refused.map(refusalRow)),
    section(
      'Requests',
      ['at', 'request', 'answer', 'idempotency key', 'request id'],
      latestRequests(requests, MAX_ROWS).map(({ at, method, path, status, idempotency_key, request_id }) => [
        at,
        `${method} ${path}`,
        answered(status),
        idempotency_key ?? '',
        request_id,
      ]),
    ),
  ]
  const head = refreshing ? `<meta http-equiv="refresh" content="${REFRESH_S}">` : ''
  return document('AI emulator', body.join('\n'), head)
}
