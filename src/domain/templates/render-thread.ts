// The thread of `render.ts`: renders one template after the other.
import { parentPort } from 'node:worker_threads'
import { threadBegan } from '#core/thread-work.ts'
import { faultOf, render } from './engine.ts'
import type { RenderGiven, RenderTold } from './render.ts'

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
const tell = (told: RenderTold): void => parentPort?.postMessage(told)

parentPort?.on('message', ({ sources, variables }: RenderGiven) => {
  tell(threadBegan())
  tell(outcomeOf({ sources, variables }))
})

function outcomeOf({ sources, variables }: RenderGiven): RenderTold {
  const rendered: Record<string, string> = {}
  for (const [part, source] of Object.entries(sources)) {
    try {
      rendered[part] = render(source, variables && { ...variables })
    } catch (error) {
      return { part, fault: faultOf(error) }
    }
  }
  return { rendered }
}
