// Numbers with their nouns.

/** `1 job`, `1,200 jobs`. `many`: the plural. Default: `one` with an s. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`
}
