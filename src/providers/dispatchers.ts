// The connection pools of undici. The package itself also loads its fetch, caches and mocks, which nothing here uses.
import { createRequire } from 'node:module'
import type * as undici from 'undici'

const require = createRequire(import.meta.url)

export const Agent = require('undici/lib/dispatcher/agent.js') as typeof undici.Agent
export const Pool = require('undici/lib/dispatcher/pool.js') as typeof undici.Pool
export const buildConnector = require('undici/lib/core/connect.js') as typeof undici.buildConnector
