# frozen_string_literal: true

# The application: what `sidekiq -r ./jobs.rb` runs. Each job notes its execution in a file, outside of the server.
require "sidekiq"

# Sidekiq 6.4 calls redis-rb 4.8 in ways that the latter warns of.
Redis.silence_deprecations = true
Sidekiq.logger.level = Logger::WARN

REDIS = {url: "redis://#{ENV.fetch("SERVER")}/0"}.freeze
Sidekiq.configure_client { |config| config.redis = REDIS }
Sidekiq.configure_server do |config|
  config.redis = REDIS
  config.options[:poll_interval_average] = 0.5 # of the scheduler
end

def note(*words)
  File.open(ENV.fetch("NOTES"), File::WRONLY | File::APPEND | File::CREAT) { |file| file.syswrite("#{words.join(" ")}\n") }
end

class Square
  include Sidekiq::Worker

  def perform(number)
    note("square", number)
  end
end

class Urgent
  include Sidekiq::Worker
  sidekiq_options queue: "critical"

  def perform(number)
    note("urgent", number)
  end
end

class Later
  include Sidekiq::Worker

  def perform(due)
    note("later", due, Time.now.to_f)
  end
end

# FailsOnce fails unless it was tried before.
class FailsOnce
  include Sidekiq::Worker
  sidekiq_options retry: 2
  sidekiq_retry_in { 0 }

  def perform(number)
    tried = File.foreach(ENV.fetch("NOTES"), chomp: true).include?("fails_once #{number}")
    note("fails_once", number)
    raise "job #{number} fails the first time, as it should" unless tried
  end
end

# Dies fails until there are no more retries.
class Dies
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform(number)
    note("dies", number)
    raise "job #{number} fails, as it should"
  end
end

# ThroughTheCrash is executed while the server goes away and comes back.
class ThroughTheCrash
  include Sidekiq::Worker

  def perform(number, path)
    note("through_the_crash", number)
    sleep 0.01 until File.exist?(path)
    # Its successor is pushed over a connection that has broken.
    Square.perform_async(number)
  end
end
