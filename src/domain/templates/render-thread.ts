// The worker thread of `render.ts`. It renders one template at a time.
import { parentPort } from 'node:worker_threads'
import { threadStart } from '#core/thread-work.ts'
import { templateFaultOf, render } from './engine.ts'
import type { RenderRequest, RenderMessage } from './render.ts'

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
const send = (message: RenderMessage): void => parentPort?.postMessage(message)

parentPort?.on('message', ({ sources, variables }: RenderRequest) => {
  send(threadStart())
  send(outcomeOf({ sources, variables }))
})

function outcomeOf({ sources, variables }: RenderRequest): RenderMessage {
  const rendered: Record<string, string> = {}
  for (const [part, source] of Object.entries(sources)) {
    try {
      rendered[part] = render(source, variables && { ...variables })
    } catch (error) {
      return { part, fault: templateFaultOf(error) }
    }
  }
  return { rendered }
}
