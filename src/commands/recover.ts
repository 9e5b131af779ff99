// `npm run recover`: what operators read and decide after a restore or failover of the database, and before a move.
import { parseArgs } from 'node:util'
import { ConfigError, loadConfig } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { findNewestChange, findSwitchState } from '#domain/switches/find.ts'
import { declareSwitch, releaseSwitches, type HeldMessages } from '#domain/switches/release.ts'
import { requireYes } from './ask.ts'
import {
  findCommand,
  refuseOptions,
  refuseSurplus,
  requireOption,
  requireReason,
  timeOf,
} from './arguments.ts'
import { completeConfig, withDatabase } from './database.ts'
import { print } from './print.ts'
import { runAsProgram } from './program.ts'
import { compareOldPrimary } from './recover/compare.ts'
import { newInstallation } from './recover/new-installation.ts'
import { NO_KEY, printNewest, readNewest } from './recover/newest.ts'
import { OPTIONS_OF, RECOVER_OPTIONS, type Recover } from './recover/options.ts'
import { rehearse } from './recover/rehearse.ts'
import { seal } from './recover/seal.ts'
import { status } from './recover/status.ts'

const HELP = `sluice recover: after a restore or failover of the database, and before it moves to another server.

  npm run recover                                              what was noticed, and what waits
  npm run recover -- release --messages send|discard --reason "checked with accounting"
  npm run recover -- release --without-lists --reason "the account has no Identity"
  npm run recover -- switched --to 2026-11-28T09:30:00Z --reason "restored from the snapshot of 9:30"
  npm run recover -- seal [--wait 120]
  npm run recover -- seal --undo
  npm run recover -- new-installation --reason "the copy for staging"
  OLD_DATABASE_URL=postgres://sluice:secret@old-primary:5432/sluice npm run recover -- compare
  npm run recover -- rehearse --backup /backups/base --restore-command "cp /backups/wal/%f %p"

status    the default: the switches of the database, which jobs wait since them, and which protections are off.
release   ends the wait after a restore. Payouts and refunds still wait until the lists of the providers have been read.
          --messages decides about messages that were accepted before the switch and are not sent yet: they may have
          been sent by the database that was lost. A failover is released without this command.
          --without-lists also ends the wait for the lists, for the case that a provider does not give one of them. You
          answer for what these lists would have shown: payouts, refunds and payments that the database lost are not
          known here. So a balance may be paid out again, more may be refunded than is left, and a request that is
          repeated more than 23 hours after its first call may take effect twice. Without the list of received SMS, an
          opt-out that the database lost may be overruled: the SMS that wait are sent. First compare by hand with the
          dashboard of the provider what was made since an hour before the newest change. The lists are still read, and
          what they show is recovered. It can be given alone, if the switches are released already. The lists of areas
          in DISABLED_AREAS are not waited for if the provider refuses them.
switched  says that the database went back to the time --to, if no process could notice that; and that this server is in
          use from now on, although another one was. --to is the time until which nothing is missing, at the latest that
          of the newest change. First prints the newest event, payment and audit entry and how far they are behind the
          witness, and asks. --yes and --json do not ask. If it is stopped, run it again: all jobs wait until then.
          Needs ENCRYPTION_KEY if there is Redis or WITNESS_URL.
seal      stops requests and jobs before a planned move to another server (a dump, a copy). The new server is then taken
          over without any wait. Waits until each process has reported that its requests and jobs have ended, and until
          commands that began before have ended: nothing is written afterwards, and other commands can only read. After
          --wait seconds (default: 120), names what may still write, with exit code 1: the database stays sealed, also
          if this command is stopped before. Seal it again, which waits again, or --undo, which ends a move that is
          given up, on the old server. Asks; --yes and --json do not ask.
new-installation
          makes a copy of a database, such as one for staging, an installation of its own: it ignores what the original
          creates at providers, and all its jobs wait as after a restore. Refused while a process uses the database.
          Asks. --yes and --json do not ask.
compare   lists by id what the old primary (OLD_DATABASE_URL, or --with if the address has no password; nothing is
          changed there) has since an hour before the last change that the switch kept (or --since) and this database
          lacks: requests, resources, tenants, users, keys, revocations of keys and entries of the audit log. Then asks,
          and recovers it: the workers look up the objects that a provider has, and make them again; tenants get an
          event request.lost for each request that was lost and that no provider lists. Nothing is copied. --json
          prints a JSON object for each row, and asks nothing: with --yes it recovers. Without --json, the first 1,000
          rows of each kind are listed.
rehearse  restores a backup beside the running system and audits it, and compares it with what the providers list.
          Nothing is written but the folder of the restored server, which is removed afterwards. Prints how long each
          step took.
          --backup: a folder of pg_basebackup, plain or tar, without tablespaces. --restore-command: how PostgreSQL gets
          WAL from the archive; without it, only the WAL in the backup is applied. --to: up to this time, with its zone.
          --bin: the folder of PostgreSQL's programs. --folder: where the server is restored, a new folder. --keep: does
          not remove it. Without --backup, audits a server that you have restored, such as from a snapshot:
          RESTORED_DATABASE_URL, or --restored if the address has no password.
          Exit code: 0 all was checked, and there is no problem; 1 the audit found one; 2 the rehearsal did not finish;
          3 something could not be checked: a list of a provider, a witness, or a check of the audit.

--json prints JSON. Exit code of the other commands: 0, or 1 if nothing was done or a seal still waits; standard error
then says why.
DATABASE_URL names the database, as the owner of the tables. Default: that of the \`npm start\` in this folder.`

const COMMANDS = {
  status,
  release,
  switched,
  seal,
  compare: compareOldPrimary,
  'new-installation': newInstallation,
}
/** `status` writes nothing. A sealed database may be a copy that becomes an installation of its own. */
const WRITE_SEALED = ['status', 'seal', 'switched', 'new-installation']
const BY = commandActor('npm run recover', null)

export async function recoverCommand(args: string[], env: NodeJS.ProcessEnv): Promise<number | void> {
  const { positionals, values, tokens } = parseArgs({
    args,
    options: RECOVER_OPTIONS,
    allowPositionals: true,
    tokens: true,
  })
  const [command = 'status'] = positionals
  if (values.help) return print(HELP)
  const perform = command === 'rehearse' ? undefined : findCommand(COMMANDS, command)
  refuseSurplus(positionals, HELP)
  const given = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []))
  refuseOptions(command, { given, taken: ['json', ...findCommand(OPTIONS_OF, command)], help: HELP })
  if (perform === undefined) return await rehearse(values, env)
  const config = loadConfig(env)
  const options = {
    max: 1,
    application_name: 'sluice-recover',
    writes_sealed: WRITE_SEALED.includes(command),
  }
  await withDatabase(config, options, async (sql) => {
    await perform({ sql, config: completeConfig(config), values })
  })
}

async function release({ sql, values }: Recover): Promise<void> {
  const without_lists = values['without-lists']
  const messages = without_lists && values.messages === undefined ? null : requireOption(values, 'messages')
  if (messages !== null && !isHeldMessages(messages))
    throw new ConfigError('--messages must be send or discard. See --help.')
  const reason = requireReason(values)
  const { released, waived } = await releaseSwitches(sql, { messages, without_lists, reason }, BY)
  if (values.json) print(JSON.stringify({ released, waived }))
  else await printReleased(sql, { released, waived })
  if (released.length + waived.length === 0) throw new ConfigError('There is no switch to release.')
}

async function printReleased(
  sql: Sql,
  { released, waived }: { released: number[]; waived: number[] },
): Promise<void> {
  if (released.length > 0) print(`Released: switch ${released.join(', ')}.`)
  if (waived.length > 0)
    print(`Nothing waits for the lists of the providers since switch ${waived.join(', ')}.`)
  await warnOfWaiting(sql)
}

/** Says that jobs still wait for an operator. */
async function warnOfWaiting(sql: Sql): Promise<void> {
  const { unreleased, recording } = await findSwitchState(sql)
  if (recording !== null)
    print(`Switch ${recording.number} is not recorded completely, and all jobs wait: npm run recover`)
  if (unreleased.length > 0)
    print(
      `Switch ${unreleased.join(', ')} is not released: npm run recover -- release --messages send|discard --reason "..."`,
    )
}

function isHeldMessages(text: string): text is HeldMessages {
  return text === 'send' || text === 'discard'
}

async function switched({ sql, config, values }: Recover): Promise<void> {
  const reason = requireReason(values)
  const newest_at = await switchTimeOf(sql, requireOption(values, 'to'))
  const newest = await readNewest(sql, config)
  // The number of the switch must be higher than those that the witnesses know.
  if (newest.witness_problems.includes(NO_KEY)) throw new ConfigError(`${NO_KEY}. See --help.`)
  if (!values.json) printNewest(newest)
  if (!values.json && !values.yes)
    await requireYes(`This server is in use from now on, as of ${newest_at}. Is that right?`)
  await declareSwitch(sql, { newest_at, witness: newest.witness, reason }, BY)
  if (values.json) return print(JSON.stringify({ switched: true, newest }))
  print('Recorded. The processes use this server within a second. See: npm run recover -- status')
}

/** The time of `--to`. Throws ConfigError if the database cannot know everything until then. */
async function switchTimeOf(sql: Sql, to: string): Promise<string> {
  const to_ms = timeOf(to, '--to')
  const now_ms = Date.now()
  const time = new Date(to_ms).toISOString()
  if (to_ms > now_ms)
    throw new ConfigError(
      `--to ${time} is in the future: it is ${new Date(now_ms).toISOString()}. See --help.`,
    )
  const newest_at = await findNewestChange(sql)
  if (to_ms > Date.parse(newest_at))
    throw new ConfigError(
      `--to ${time} is later than the newest change in the database, ${newest_at}: what happened between them may be missing. Give --to ${newest_at}, or an earlier time until which nothing is missing.`,
    )
  return time
}

if (import.meta.main) await runAsProgram(recoverCommand)
