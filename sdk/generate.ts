// Generates the SDK's types and resource classes from the OpenAPI document of the API.
import type { Document } from './generate/document.ts'
import { resourceFiles } from './generate/resources.ts'
import { eventsFile, schemasFile } from './generate/schemas.ts'

/** The unformatted files of `sdk/src/generated`, by path. */
export function generateSdk(document: Document): Map<string, string> {
  return new Map([
    ['schemas.ts', schemasFile(document)],
    ['events.ts', eventsFile(document)],
    ...resourceFiles(document),
  ])
}
