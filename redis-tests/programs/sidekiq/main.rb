# frozen_string_literal: true

# Sidekiq: queues with weights, bulk pushes, the scheduler, retries, dead jobs, statistics, and crashes of the server between.
require "tmpdir"

ADDRESS, DIRECTORY = ARGV
NOTES = File.join(DIRECTORY, "notes")
File.write(NOTES, "")
ENV["SERVER"] = ADDRESS
ENV["NOTES"] = NOTES

require "sidekiq/api"
require_relative "jobs"

PATIENCE = 60
CONCURRENCY = 4

def noted(name)
  File.foreach(NOTES, chomp: true).map(&:split).select { |words| words[0] == name }.map { |words| words.drop(1) }
end

def equal(what, got, want)
  raise "#{what}: got #{got.inspect}, want #{want.inspect}" unless got == want
end

def once(name, wanted)
  equal("executions of #{name}", noted(name).map { |words| words[0].to_i }.tally, wanted.to_h { |number| [number, 1] })
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def wait_until(what)
  deadline = now + PATIENCE
  until yield
    raise "#{what}: not within #{PATIENCE} s" if now > deadline
    sleep 0.02
  end
end

# The client gives up at the second failure in a row, so an application that is to survive a crash repeats a push. A
# push that was taken, and whose answer was lost, is repeated, too; here none is on its way when the server ends.
def insist
  deadline = now + PATIENCE
  begin
    yield
  rescue Redis::BaseConnectionError, Redis::CommandError
    raise if now > deadline
    sleep 0.05
    retry
  end
end

# Without a crash each job is executed once, and none before its time.
def exact
  300.times { |i| Square.perform_async(i) }
  Sidekiq::Client.push_bulk("class" => Square, "args" => (300...500).map { |i| [i] })
  50.times { |i| Urgent.perform_async(i) }
  5.times { |i| FailsOnce.perform_async(i) }
  3.times { |i| Dies.perform_async(i) }
  [0.4, 0.8, 1.2].each { |wait| Later.perform_in(wait, Time.now.to_f + wait) }
  removed = Square.perform_in(3600, -1)
  wait_until("all jobs") { noted("square").size >= 500 && noted("urgent").size >= 50 && noted("fails_once").size >= 10 && noted("dies").size >= 3 && noted("later").size >= 3 }
  once("square", 0...500)
  once("urgent", 0...50)
  once("dies", 0...3)
  equal("tries", noted("fails_once").tally, (0...5).to_h { |i| [[i.to_s], 2] })
  noted("later").each { |due, executed| raise "due at #{due}, executed at #{executed}" if executed.to_f < due.to_f }
  equal("scheduled", Sidekiq::ScheduledSet.new.map(&:jid), [removed])
  equal("removed", Sidekiq::ScheduledSet.new.find_job(removed).delete, true)
  # Failures are counted after the job's end.
  wait_until("statistics") { Sidekiq::Stats.new.processed == 566 }
  stats = Sidekiq::Stats.new
  equal("statistics", [stats.failed, stats.enqueued, stats.scheduled_size, stats.retry_size, stats.workers_size].take(4), [8, 0, 0, 0])
end

def crash
  puts "crash"
  $stdout.flush
  $stdin.gets
end

# Sidekiq loses a job whose worker gets no answer, and says so. So all workers are at a job when the server is killed.
def busy
  path = File.join(DIRECTORY, "restarted")
  CONCURRENCY.times { |i| ThroughTheCrash.perform_async(1000 + i, path) }
  wait_until("all workers are at a job") { noted("through_the_crash").size == CONCURRENCY }
  (500...700).each { |i| Square.perform_async(i) }
  crash
  equal("jobs in the queue", insist { Sidekiq::Queue.new.size }, 200)
  File.write(path, "")
  wait_until("all jobs") { noted("square").size >= 700 + CONCURRENCY }
  once("through_the_crash", 1000...1000 + CONCURRENCY)
end

# Workers that wait for a job, and a scheduler with some to come, find the server again.
def idle
  wait_until("empty queues") { Sidekiq::Queue.all.sum(&:size) == 0 && Sidekiq::Workers.new.size == 0 }
  Square.perform_in(1, 700)
  crash
  (701...750).each { |i| insist { Square.perform_async(i) } }
  wait_until("all jobs") { noted("square").size >= 750 + CONCURRENCY }
  once("square", [*0...750, *1000...1000 + CONCURRENCY])
end

directory = File.dirname(File.expand_path(__FILE__))
worker = Process.spawn("setpriv", "--pdeathsig", "KILL", "sidekiq", "-r", File.join(directory, "jobs.rb"), "-q", "critical,3", "-q", "default,1",
  "-c", CONCURRENCY.to_s, "-t", "5")
begin
  exact
  busy
  idle
ensure
  Process.kill("TERM", worker)
end
_, status = Process.wait2(worker)
raise "sidekiq: #{status}" unless status.success?
puts "sidekiq: all results are right"
