// The variables of logs and traces.
import { z } from 'zod'
import { list } from './list.ts'
import { baseUrl, SECRETS, SERVICES, type VariableRow } from './row.ts'

/** `name=value,name=value`: the format of OpenTelemetry for headers and attributes. Values are percent-encoded. */
const pairs = z.string().refine((text) => list(text).every((pair) => /^[^\s=]+ *=/.test(pair)), {
  error: 'must be name=value,name=value',
})

export const TELEMETRY_VARIABLES = {
  LOG_LEVEL: [
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    'info',
    'lowest level that is logged',
    SERVICES,
  ],
  LOG_REQUESTS: [
    z.coerce.number().min(0).max(1).optional(),
    '0.1',
    'share of requests, 0 to 1, that are logged with a line each, together with their jobs; failures (5xx) are always logged. Unset: 0.01 in production, otherwise 1',
    SERVICES,
  ],
  OTEL_EXPORTER_OTLP_ENDPOINT: [
    baseUrl.optional(),
    'http://127.0.0.1:4318',
    'OpenTelemetry collector, without `/v1/traces`, to which traces are sent by OTLP over HTTP (protobuf); unset: no traces, and nothing of OpenTelemetry is loaded',
    SERVICES,
  ],
  OTEL_EXPORTER_OTLP_HEADERS: [
    pairs.optional().register(SECRETS, { is_reread: false }),
    'authorization=Bearer%20token',
    'headers for that collector, `name=value`, separated by commas; values are percent-encoded',
    SERVICES,
  ],
  OTEL_SERVICE_NAME: [
    z.string().min(1).max(255).optional(),
    'sluice',
    "service name of all spans; unset: `sluice-` and the process's name, such as `sluice-worker`",
    SERVICES,
  ],
  OTEL_RESOURCE_ATTRIBUTES: [
    pairs.optional(),
    'deployment.environment.name=production',
    'further attributes of the service, `name=value`, separated by commas; values are percent-encoded',
    SERVICES,
  ],
  OTEL_TRACES_SAMPLER: [
    z
      .enum([
        'always_on',
        'always_off',
        'traceidratio',
        'parentbased_always_on',
        'parentbased_always_off',
        'parentbased_traceidratio',
      ])
      .default('parentbased_always_on'),
    'parentbased_traceidratio',
    "which requests are traced; `parentbased_...` follows the caller's `traceparent` if there is one",
    SERVICES,
  ],
  OTEL_TRACES_SAMPLER_ARG: [
    z.coerce.number().min(0).max(1).default(1),
    '0.01',
    'share of requests, 0 to 1, that `traceidratio` and `parentbased_traceidratio` trace',
    SERVICES,
  ],
} as const satisfies Record<string, VariableRow>
