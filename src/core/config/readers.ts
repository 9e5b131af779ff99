// Which process reads which variable, and which it needs.
import type { ProcessName, VariableRow } from './row.ts'
import { VARIABLE_NAMES, VARIABLES, type VariableName } from './variables.ts'

/** The variables without which one of these processes does not start. */
export function neededBy(...processes: ProcessName[]): VariableName[] {
  return VARIABLE_NAMES.filter((name) => {
    const { 4: needed_by = [] }: VariableRow = VARIABLES[name]
    return needed_by.some((process) => processes.includes(process))
  })
}

/** Whether a worker of these queues, none named: of all, starts without this variable. */
export function isSpared(name: VariableName, queues: readonly string[]): boolean {
  const { 5: of_queues }: VariableRow = VARIABLES[name]
  return of_queues !== undefined && queues.length > 0 && !queues.some((queue) => of_queues.includes(queue))
}

/** Whether this process reads this variable. */
export function isReadBy(name: VariableName, process: ProcessName): boolean {
  const { 3: read_by }: VariableRow = VARIABLES[name]
  return process === 'start' || read_by.includes(process)
}
