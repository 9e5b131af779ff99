// Examples of events in the OpenAPI document.
import { exampleOfEvent } from '../../openapi/events.ts'

export const CAPTURED_EVENT = { type: 'payment.captured', data: exampleOfEvent('payment.captured') }
