// The state of the emulator: the engine, and what the emulator adds to it.
import { createEngine, type Engine, type EngineSettings } from '#providers/sandbox/stripe/engine.ts'
import type { AppendFile } from '../shared/append-file.ts'
import { emptyFaults, type Faults } from '../shared/faults.ts'
import { emptyRequestLog, type RequestLog } from '../shared/requests.ts'
import { writeEffect, type Effects } from './effects.ts'
import { createChangeTimer, type ChangeTimer } from './timer.ts'
import type { Webhooks } from './webhooks.ts'

export type Emulator = {
  /** The URL of the emulator, e.g. `http://127.0.0.1:12111`. */
  url: string
  engine: Engine
  effects: Effects
  faults: Faults
  requests: RequestLog
  webhooks: Webhooks | null
  /** The file of the engine's journal. */
  journal: AppendFile | null
  timer: ChangeTimer
  /** Set by `close`. A closed emulator makes no further changes. */
  closed: boolean
}

/** Creates the emulator with an empty engine. */
export function createEmulator(settings: Partial<EngineSettings>, record_requests: boolean): Emulator {
  const engine = createEngine({
    ...settings,
    omitsEvent: () => emulator.webhooks?.omitsEvent() ?? false,
    isSubscribed: (type) => emulator.webhooks?.isSubscribed(type) ?? false,
    onEvent: (event) => {
      if (event.pending) emulator.webhooks?.send(event)
    },
    onEffect: (effect) => writeEffect(emulator.effects, effect),
    onScheduled: () => emulator.timer.arm(),
    onFailure(error, change) {
      if (change !== null) console.error(`The scheduled change (${change.kind}) of ${change.id} failed:`)
      console.error(error)
    },
  })
  const emulator: Emulator = {
    url: '',
    engine,
    effects: { lines: [], file: null },
    faults: emptyFaults(),
    requests: emptyRequestLog(record_requests),
    webhooks: null,
    journal: null,
    timer: createChangeTimer(engine),
    closed: false,
  }
  return emulator
}
