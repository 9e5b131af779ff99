// Looks up keys for addresses that have used up their budget of invalid keys: few statements, with many keys each, by
// turns of the addresses.
import { setTimeout as sleep } from 'node:timers/promises'

/** The pause between two statements. */
const EVERY_MS = 100
const KEYS_AT_ONCE = 64
/**
 * With these limits every waiting key is looked up within a second, and the keys of a single address within two
 * statements.
 */
const MOST_WAITING = 512
const MOST_OF_AN_ADDRESS = 128

type Waiting<Found> = { secret: string; resolve: (found: Found) => void; reject: (error: unknown) => void }

/**
 * `lookUp` returns one result for each key, in their order. Rejects with its errors. When too many keys wait, a
 * random one of the longest line is rejected with the error of `refuse`: refusing the newest would favour those who
 * ask most often.
 */
export function createSlowLane<Found>(
  lookUp: (secrets: string[]) => Promise<Found[]>,
  refuse: () => Error,
): (ip: string, secret: string) => Promise<Found> {
  const lines = new Map<string, Waiting<Found>[]>()
  let waiting = 0
  let serving = false

  /** Takes one key from each line in turn until there are enough; a line that was served goes to the end. */
  function next(): Waiting<Found>[] {
    const taken: Waiting<Found>[] = []
    while (taken.length < KEYS_AT_ONCE && waiting > 0) {
      const [[ip, line] = ['', []]] = lines
      lines.delete(ip)
      taken.push(...line.splice(0, 1))
      waiting -= 1
      if (line.length > 0) lines.set(ip, line)
    }
    return taken
  }

  async function serve(): Promise<void> {
    if (serving) return
    serving = true
    while (waiting > 0) {
      const taken = next()
      await lookUp(taken.map(({ secret }) => secret)).then(
        (found) => taken.forEach(({ resolve }, index) => resolve(found[index]!)),
        (error: unknown) => taken.forEach(({ reject }) => reject(error)),
      )
      await sleep(EVERY_MS, undefined, { ref: false })
    }
    serving = false
  }

  function makeRoom(): void {
    const most = Math.max(...Array.from(lines.values(), ({ length }) => length))
    if (waiting <= MOST_WAITING && most <= MOST_OF_AN_ADDRESS) return
    const [ip, line] = anyOf([...lines].filter(([, { length }]) => length === most))
    const refused = anyOf(line)
    line.splice(line.indexOf(refused), 1)
    if (line.length === 0) lines.delete(ip)
    waiting -= 1
    refused.reject(refuse())
  }

  return async (ip, secret) =>
    await new Promise<Found>((resolve, reject) => {
      const line = lines.get(ip) ?? []
      line.push({ secret, resolve, reject })
      lines.set(ip, line)
      waiting += 1
      makeRoom()
      void serve()
    })
}

function anyOf<Item>(items: Item[]): Item {
  return items[Math.floor(Math.random() * items.length)]!
}
