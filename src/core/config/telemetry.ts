// The variables of logs and traces.
import { z } from 'zod'
import { list } from './list.ts'
import { baseUrl, count, networks, SECRETS, SERVICES, type VariableRow } from './row.ts'

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
      .default('parentbased_traceidratio'),
    'parentbased_always_on',
    'which requests are traced; `parentbased_...` follows the `traceparent` of trusted callers',
    SERVICES,
  ],
  OTEL_TRACES_SAMPLER_ARG: [
    z.coerce.number().min(0).max(1).optional(),
    '0.01',
    'share of requests, 0 to 1, that `traceidratio` and `parentbased_traceidratio` trace. Unset: 0.01 in production, otherwise 1',
    SERVICES,
  ],
  TRACES_TRUSTED_CALLERS: [
    networks.optional(),
    '10.1.0.0/16,fd12:3456:789a::/48',
    'networks (CIDR), separated by commas, of callers whose `traceparent` names the parent and says whether the request is traced. Unset: none in production, otherwise all',
    ['api'],
  ],
  TRACES_PER_SECOND: [
    count(20),
    '20',
    'traces that a process begins a second, and at once; further requests are not traced',
    SERVICES,
  ],
} as const satisfies Record<string, VariableRow>
