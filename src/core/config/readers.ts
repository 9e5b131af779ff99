// The variables that each process reads, and the variables that it requires.
import type { ProcessName, VariableRow } from './row.ts'
import { VARIABLE_NAMES, VARIABLES, type VariableName } from './variables.ts'

/** The variables without which at least one of these processes does not start. */
export function requiredVariables(...processes: ProcessName[]): VariableName[] {
  return VARIABLE_NAMES.filter((name) => {
    const { 4: required_by = [] }: VariableRow = VARIABLES[name]
    return processes.some((process) => appliesTo(process, required_by))
  })
}

/** Whether a worker of these queues starts without this variable. No queues: a worker of all queues. */
export function isOptionalForQueues(name: VariableName, queues: readonly string[]): boolean {
  const { 5: serving_queues }: VariableRow = VARIABLES[name]
  return (
    serving_queues !== undefined &&
    queues.length > 0 &&
    !queues.some((queue) => serving_queues.includes(queue))
  )
}

/** Whether this process reads this variable. */
export function isReadBy(name: VariableName, process: ProcessName): boolean {
  const { 3: read_by }: VariableRow = VARIABLES[name]
  return (
    process === 'start' || read_by.includes(process) || (appliesTo(process, read_by) && name !== 'API_PORT')
  )
}

/** Variables of the API also apply to the dashboard, which serves the API's routes. */
function appliesTo(process: ProcessName, processes: readonly ProcessName[]): boolean {
  return processes.includes(process) || (process === 'dashboard' && processes.includes('api'))
}
